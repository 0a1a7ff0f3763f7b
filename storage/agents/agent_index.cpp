// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_index.hpp"

#include <algorithm>

#include "storage/agents/policy/tier_policy.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/pool/session_note.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

using std::chrono::system_clock;

/// How many evicted agents the index remembers as evicted. Beyond it a miss is reported without a
/// reason.
constexpr std::size_t absent_max = 65536;

/// Whether the pool gets frames back when this state is dropped: nobody else shares one of its
/// blocks or recurrent states.
bool frees_frames(const agent_state& state) {
    const auto is_last = [](const kv_block_parts& block) {
        return block.full.use_count() == 1 || block.sliding.use_count() == 1;
    };
    return std::ranges::any_of(state.blocks, is_last) ||
           std::ranges::any_of(state.states,
                               [](const kept_state& each) { return each.state.use_count() == 1; });
}

/// Gives the agent's newest state other blocks and recurrent states; the rest of it is copied.
/// Returns: the former state, null when nothing differs.
state_ptr replace_blocks(agent_record& agent, std::vector<kv_block_parts> blocks,
                         std::vector<kept_state> states) {
    if (blocks == agent.state->blocks && states == agent.state->states) return nullptr;
    auto state = std::make_shared<agent_state>(*agent.state);
    state->blocks = std::move(blocks);
    state->states = std::move(states);
    return std::exchange(agent.state, std::move(state));
}

state_ptr replace_blocks(agent_record& agent, std::vector<kv_block_parts> blocks) {
    return replace_blocks(agent, std::move(blocks), agent.state->states);
}

}  // namespace

agent_index::agent_index(const state_blocks& shape, file_books files,
                         std::shared_ptr<index_commons> commons)
    : shape_(shape), files_(std::move(files)), commons_(std::move(commons)) {
    const lock locked(*this);
    commons_->members.push_back(this);
}

agent_index::~agent_index() {
    const lock locked(*this);
    std::erase(commons_->members, this);
}

// --- agents ---

agent_record* agent_index::find(const lock&, const agent_id& id) {
    const auto found = agents_.find(id);
    return found == agents_.end() ? nullptr : &found->second;
}

const agent_record* agent_index::find(const lock&, const agent_id& id) const {
    const auto found = agents_.find(id);
    return found == agents_.end() ? nullptr : &found->second;
}

agent_record& agent_index::add(const lock& locked, agent_record agent) {
    agent_record& added = add_without_text(locked, std::move(agent));
    by_text_.add(&added.state);
    return added;
}

agent_record& agent_index::add_without_text(const lock&, agent_record agent) {
    const agent_id id = agent.state->id;
    const auto [added, is_new] = agents_.emplace(id, std::move(agent));
    ASSERT(is_new);
    index_messages(id, nullptr, added->second.state.get());
    return added->second;
}

void agent_index::add_texts(const lock&) {
    for (auto& [id, agent] : agents_) by_text_.add(&agent.state);
}

agent_record agent_index::take(const lock&, const agent_id& id) {
    const auto found = agents_.find(id);
    by_text_.remove(&found->second.state);
    index_messages(id, found->second.state.get(), nullptr);
    agent_record agent = std::move(found->second);
    agents_.erase(found);
    return agent;
}

// --- looking up ---

std::optional<message_place> agent_index::find_message(const lock&, const tenant_id& tenant,
                                                       const std::string& id) const {
    const auto found = by_message_.find({tenant, id});
    if (found == by_message_.end()) return std::nullopt;
    const agent_state& state = *agents_.at(found->second).state;
    const auto end = std::ranges::find(state.messages, id, &message_end::id);
    ASSERT(end != state.messages.end());
    return message_place{state.id, static_cast<int>(end->tokens),
                         end->tokens == 0 ? 0 : state.token_ends[end->tokens - 1], end->rest,
                         end->tokens == state.tokens.size()};
}

state_ptr agent_index::find_same_prefix(const lock&, const agent_state& state,
                                        std::size_t tokens) const {
    const auto found = agents_.find(state.id);
    if (found == agents_.end()) return nullptr;
    const agent_state& now = *found->second.state;
    const bool same =
        now.private_salt == state.private_salt && now.tokens.size() >= tokens &&
        std::equal(now.tokens.begin(), now.tokens.begin() + static_cast<std::ptrdiff_t>(tokens),
                   state.tokens.begin());
    return same ? found->second.state : nullptr;
}

/// Updates by_message_ when an agent's state changes from `former` to `now`; null means that there
/// is none. Both lists of messages mostly begin alike, so only the entries after the first
/// difference are touched.
void agent_index::index_messages(const agent_id& id, const agent_state* former,
                                 const agent_state* now) {
    static const std::vector<message_end> none;
    const auto& gone = former == nullptr ? none : former->messages;
    const auto& come = now == nullptr ? none : now->messages;
    const auto [first_gone, first_come] = std::ranges::mismatch(gone, come);
    for (auto each = first_gone; each != gone.end(); ++each) {
        const auto found = by_message_.find({id.tenant(), each->id});
        // The entry may name another agent by now, which got the same answer later.
        if (found != by_message_.end() && found->second == id) by_message_.erase(found);
    }
    for (auto each = first_come; each != come.end(); ++each)
        by_message_.insert_or_assign({id.tenant(), each->id}, id);
}

// --- states ---

agent_index::outdated agent_index::publish(const lock& locked, agent_state state,
                                           std::vector<block_hash> names) {
    outdated out;
    const agent_id id = state.id;
    agent_record& agent = agents_[id];
    pin_passed(agent, names, state.tokens.size());
    if (agent.state) state.policy = state.policy.or_else(agent.state->policy);
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto at = shape_.place(state, names, i);
        for (const kv_part part : kv_parts) {
            block_ptr& block = state.blocks[i].at(part);
            if (block == nullptr) continue;
            auto kept = adopt(locked, at, block);
            out.duplicates.push_back(std::exchange(block, std::move(kept)));
        }
        add_unsaved_sliding(at, state.blocks[i]);
    }
    for (kept_state& each : state.states) {
        const auto at = shape_.kept_place(state, names, each.tokens);
        if (each.state == nullptr) {
            each.state = find_kept(locked, at);
            continue;
        }
        auto kept = adopt_kept(locked, at, each.state);
        out.duplicate_states.push_back(std::exchange(each.state, std::move(kept)));
    }
    agent.kept_names = shape_.kept_names_of(state, names);
    agent.last_used = state.last_used;
    if (agent.state) by_text_.remove(&agent.state);
    index_messages(id, agent.state.get(), &state);
    out.former = std::exchange(agent.state, std::make_shared<const agent_state>(std::move(state)));
    by_text_.add(&agent.state);
    agent.names = std::move(names);
    agent.mark_dirty();
    agent.save_failed = false;  // this state has not been tried yet
    out.with_passed = drop_passed(locked, agent, passed_frames::saved);
    return out;
}

void agent_index::pin_passed(agent_record& agent, const std::vector<block_hash>& names,
                             std::size_t tokens) const {
    if (!shape_.layout().slides()) return;
    for (std::size_t i = 0; i < std::min(names.size(), shape_.window_start(tokens)); ++i)
        if (agent.pinned.insert(names[i]).second) {
            files_.retain({&names[i], 1});
            agent.attempted.push_back(names[i]);
        }
}

void agent_index::add_unsaved_sliding(const block_place& at, kv_block_parts& block) const {
    constexpr kv_part part = kv_part::sliding;
    if (!shape_.layout().slides() || block.sliding != nullptr || !at.full) return;
    if (!files_.is_saved(at.name, part)) block.sliding = blocks_.find(at.name, at.identity, part);
}

state_ptr agent_index::add_missing_blocks(const lock& locked, agent_record& agent,
                                          const agent_state& from,
                                          const std::vector<block_hash>& names) {
    std::vector<kv_block_parts> blocks = agent.state->blocks;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto at = shape_.place(from, names, i);
        if (!has(agent, i, at)) break;
        for (const kv_part part : kv_parts) {
            const block_ptr& block = from.blocks[i].at(part);
            if (block != nullptr && blocks[i].at(part) == nullptr &&
                !files_.is_saved(names[i], part))
                blocks[i].at(part) = adopt(locked, at, block);
        }
    }
    std::vector<kept_state> states = agent.state->states;
    for (std::size_t i = 0; i < states.size(); ++i)
        for (const kept_state& each : from.states)
            if (states[i].state == nullptr && each.tokens == states[i].tokens &&
                !files_.is_saved(agent.kept_names[i], kv_part::state) &&
                shape_.kept_place(from, names, each.tokens).name == agent.kept_names[i])
                states[i].state = each.state;
    state_ptr former = replace_blocks(agent, std::move(blocks), std::move(states));
    if (former) agent.mark_dirty();
    return former;
}

state_ptr agent_index::add_restored(const lock&, const agent_state& from,
                                    const std::vector<block_hash>& names,
                                    const std::vector<kv_block_parts>& restored, std::size_t tokens,
                                    const recurrent_ptr& kept) {
    const auto found = agents_.find(from.id);
    if (found == agents_.end()) return nullptr;
    agent_record& agent = found->second;
    agent.last_used = std::chrono::system_clock::now();
    std::vector<kv_block_parts> blocks = agent.state->blocks;
    const std::size_t sliding_from = shape_.window_start(agent.state->tokens.size());
    for (std::size_t i = 0; i < restored.size() && has(agent, i, shape_.place(from, names, i));
         ++i) {
        if (blocks[i].full == nullptr) blocks[i].full = restored[i].full;
        // Sliding frames before the window of the agent's newest state are of use only to the
        // sequence that asked for them, which holds them itself.
        if (i >= sliding_from && blocks[i].sliding == nullptr)
            blocks[i].sliding = restored[i].sliding;
    }
    std::vector<kept_state> states = agent.state->states;
    if (kept != nullptr)
        for (std::size_t i = 0; i < states.size(); ++i)
            if (states[i].tokens == tokens && states[i].state == nullptr &&
                shape_.kept_place(from, names, tokens).name == agent.kept_names[i])
                states[i].state = kept;
    return replace_blocks(agent, std::move(blocks), std::move(states));
}

state_ptr agent_index::set_policy(const lock&, agent_record& agent, const memory_policy& policy) {
    auto state = std::make_shared<agent_state>(*agent.state);
    state->policy = policy;
    agent.mark_dirty();
    return std::exchange(agent.state, std::move(state));
}

/// KV without a recurrent state cannot be continued from, nor a state without KV: both are dropped
/// together.
state_ptr agent_index::drop_blocks(const lock&, agent_record& agent) {
    std::vector<kept_state> states = agent.state->states;
    for (kept_state& each : states) each.state.reset();
    return replace_blocks(agent, std::vector<kv_block_parts>(agent.state->blocks.size()),
                          std::move(states));
}

state_ptr agent_index::drop_passed(const lock&, agent_record& agent, passed_frames dropped) {
    std::vector<kv_block_parts> kept = agent.state->blocks;
    const std::size_t passed =
        std::min(kept.size(), shape_.window_start(agent.state->tokens.size()));
    for (std::size_t i = 0; i < passed; ++i)
        if (dropped == passed_frames::all || files_.is_saved(agent.names[i], kv_part::sliding))
            kept[i].sliding.reset();
    return replace_blocks(agent, std::move(kept));
}

// --- blocks ---

block_ptr agent_index::adopt(const lock&, const block_place& at, block_ptr block) {
    return at.full ? blocks_.adopt(at.name, at.identity, std::move(block)) : block;
}

block_ptr agent_index::find_block(const lock&, const agent_state& state, const block_part& wanted,
                                  const block_place& at) const {
    if (at.full)
        if (auto block = blocks_.find(at.name, at.identity, wanted.part)) return block;
    const auto newest = agents_.find(state.id);
    if (newest == agents_.end() || !has(newest->second, wanted.index, at)) return nullptr;
    return newest->second.state->blocks[wanted.index].at(wanted.part);
}

/// Whether block number `index` of the agent is the block at `at`: with the same name, salt, parent
/// and token ids, for two blocks may have the same name by chance.
bool agent_index::has(const agent_record& agent, std::size_t index, const block_place& at) const {
    if (index >= agent.names.size() || agent.names[index] != at.name) return false;
    if (shape_.salt_of(*agent.state) != at.identity.tenant_salt) return false;
    if (index > 0 && agent.names[index - 1] != at.identity.parent) return false;
    const auto own = shape_.place(*agent.state, agent.names, index);
    return std::ranges::equal(own.identity.tokens, at.identity.tokens);
}

void agent_index::mark_damaged(const lock&, const block_hash& name, kv_part part) {
    for (auto& [id, agent] : agents_) {
        if (part == kv_part::state) {
            for (std::size_t i = 0; i < agent.kept_names.size(); ++i)
                if (agent.kept_names[i] == name && agent.state->states[i].state != nullptr)
                    agent.mark_dirty();
            continue;
        }
        for (std::size_t i = 0; i < agent.names.size(); ++i)
            if (agent.names[i] == name && agent.state->blocks[i].at(part) != nullptr)
                agent.mark_dirty();
    }
}

// --- eviction ---

void agent_index::weigh_claims(const lock&, system_clock::time_point now,
                               std::vector<claimant>& claimants) {
    const kv_layout& layout = shape_.layout();
    for (auto& [id, agent] : agents_) {
        agent.claim = claim_of(agent.state->policy, agent.last_used, now);
        if (agent.claim < memory_claim::kept) continue;
        const std::uint64_t bytes = layout.bytes_for(static_cast<int>(agent.state->tokens.size())) +
                                    agent.state->states.size() * layout.state_bytes();
        claimants.push_back({id.tenant(), agent.last_used, bytes, &agent.claim});
    }
}

void agent_index::weigh_all_claims(const lock& locked, system_clock::time_point now,
                                   std::uint64_t share_bytes) {
    std::vector<claimant> claimants;
    for (agent_index* each : commons_->members) each->weigh_claims(locked, now, claimants);
    const auto weigh = [&](foreign_manifest& each) {
        each.claim = claim_of(each.policy, each.last_used, now);
        if (!each.agent || each.claim < memory_claim::kept) return;
        const std::uint64_t blocks = files_.bytes_on_disk ? files_.bytes_on_disk(each.names) : 0;
        claimants.push_back(
            {each.agent->tenant(), each.last_used, each.bytes + blocks, &each.claim});
    };
    commons_->foreign.visit_kept(weigh);
    cut_to_share(std::move(claimants), share_bytes);
}

agent_index::clean_agent agent_index::most_dispensable(const lock&, system_clock::time_point now,
                                                       const agent_id* keep) {
    clean_agent found;
    for (auto& [id, agent] : agents_) {
        if ((keep != nullptr && id == *keep) || agent.dirty || !shape_.any_hot(*agent.state))
            continue;
        // An agent whose blocks are all shared frees no frame by itself, so it ranks below one
        // that does.
        const clean_agent::score_type score{
            -static_cast<int>(agent.claim), frees_frames(*agent.state),
            dispensability(now - agent.last_used, agent.state->tokens.size())};
        if (score > found.score) found = {&agent, score};
    }
    return found;
}

state_ptr agent_index::evict_clean(const lock& locked, system_clock::time_point now,
                                   const agent_id* keep) {
    const clean_agent victim = most_dispensable(locked, now, keep);
    return victim.agent == nullptr ? nullptr : drop_blocks(locked, *victim.agent);
}

state_ptr agent_index::evict_passed_of_failed(const lock& locked) {
    for (auto& [id, agent] : agents_)
        if (agent.save_failed)
            if (auto former = drop_passed(locked, agent, passed_frames::all)) return former;
    return nullptr;
}

/// The agent's files, if an older version is there, become a foreign manifest: the quota may remove
/// them, and the next opening reads them.
state_ptr agent_index::forget_failed(const lock& locked, const agent_id* keep) {
    const agent_id* oldest = nullptr;
    for (const auto& [id, agent] : agents_) {
        if ((keep != nullptr && id == *keep) || !agent.dirty || !agent.save_failed) continue;
        if (!shape_.any_hot(*agent.state) || held_.contains(id)) continue;
        if (commons_->turns.contains(shape_.manifest_of(id))) continue;
        if (oldest == nullptr || agent.last_used < agents_.at(*oldest).last_used) oldest = &id;
    }
    if (oldest == nullptr) return nullptr;
    agent_record agent = take(locked, agent_id(*oldest));
    const std::string path = shape_.manifest_of(agent.state->id);
    foreign_manifest left{std::move(agent.saved), agent.manifest_bytes};
    left.names.insert(left.names.end(), agent.attempted.begin(), agent.attempted.end());
    if (!left.names.empty() || left.bytes > 0) commons_->foreign.add(path, std::move(left));
    commons_->absent[path] = shortfall::evicted;
    return std::move(agent.state);
}

// --- files ---

namespace {

/// Whether a manifest may be removed to make room for `owner`: its own, and leftovers that belong
/// to no agent. Null: for anybody, so every manifest may go.
bool may_go_for(const tenant_id* owner, const std::optional<agent_id>& agent) {
    return owner == nullptr || !agent || agent->tenant() == *owner;
}

}  // namespace

agent_index::removal agent_index::choose_removal(const lock&, system_clock::time_point now,
                                                 const std::set<std::string>& in_vain,
                                                 const tenant_id* owner) {
    removal chosen;
    const auto is_free = [&](const std::string& path) {
        return !commons_->turns.contains(path) && !in_vain.contains(path);
    };
    // Greater is removed first. A manifest that waits for its upload exists nowhere else, so it is
    // the last one.
    const auto score_of = [&](const std::string& path, memory_claim claim, double dispensable) {
        return std::tuple(!commons_->spared.contains(path), -static_cast<int>(claim), dispensable);
    };
    std::tuple most{false, std::numeric_limits<int>::min(), -1.0};
    for (const auto& [path, each] : commons_->foreign.all()) {
        if (!each.is_understood) chosen.orphans_may_go = false;
        if (!each.is_readable || !may_go_for(owner, each.agent)) continue;
        const auto score =
            score_of(path, each.claim, dispensability(now - each.last_used, each.tokens));
        const bool goes = !each.agent || score > most;
        if (chosen.is_leftover || !goes || !is_free(path)) continue;
        chosen.is_leftover = !each.agent;
        most = score;
        chosen.path = path;
        chosen.claim = each.claim;
    }
    for (agent_index* member : commons_->members) {
        if (chosen.is_leftover) break;
        for (const auto& [id, each] : member->agents_) {
            if (!may_go_for(owner, id)) continue;
            const double score = dispensability(now - each.last_used, each.state->tokens.size());
            // The best that score_of() could give, before the path is made, which costs time.
            const std::tuple best{true, -static_cast<int>(each.claim), score};
            if (best <= most || each.dirty || member->held_.contains(id)) continue;
            const std::string path = member->shape_.manifest_of(id);
            if (!is_free(path) || score_of(path, each.claim, score) <= most) continue;
            most = score_of(path, each.claim, score);
            chosen.claim = each.claim;
            chosen.agent = id;
            chosen.member = member;
        }
    }
    if (chosen.agent) chosen.path = chosen.member->shape_.manifest_of(*chosen.agent);
    if (!chosen.path.empty()) commons_->turns.insert(chosen.path);
    return chosen;
}

void agent_index::visit_removables(const lock&, const std::set<std::string>& in_vain,
                                   const tenant_id* owner,
                                   const std::function<bool(const removable&)>& visit) const {
    const auto is_free = [&](const std::string& path) {
        return !commons_->turns.contains(path) && !in_vain.contains(path);
    };
    for (const auto& [path, each] : commons_->foreign.all())
        if (each.is_readable && may_go_for(owner, each.agent) && is_free(path) &&
            !visit({each.bytes, each.names, {}}))
            return;
    for (const agent_index* member : commons_->members)
        for (const auto& [id, each] : member->agents_) {
            if (!may_go_for(owner, id) || each.dirty || member->held_.contains(id)) continue;
            if (!is_free(member->shape_.manifest_of(id))) continue;
            if (!visit({each.manifest_bytes, each.saved, each.attempted})) return;
        }
}

foreign_manifest agent_index::take_foreign(const lock&, const std::string& path) {
    commons_->absent.erase(path);
    commons_->unkept.erase(path);
    return commons_->foreign.take(path);
}

shortfall agent_index::why_absent(const lock& locked, const std::string& path,
                                  const std::string& weights, const agent_id* id) const {
    for (const std::string& each : {path, former_manifest_path(path)})
        if (const auto found = commons_->absent.find(each); found != commons_->absent.end())
            return found->second;
    shortfall why = shortfall::none;
    const foreign_manifests& foreign = commons_->foreign;
    const auto is_of_others = [&](const block_hash& fingerprint) {
        const model_label& label = foreign.label_of(fingerprint);
        return !label.weights.empty() && label.weights != weights;
    };
    for (const agent_index* other : members(locked)) {
        if (id == nullptr || other == this || !other->agents_.contains(*id)) continue;
        if (is_of_others(other->shape_.fingerprint())) return shortfall::model_changed;
        why = shortfall::incompatible;
    }
    for (const auto& each : commons_->foreign.beginning_with(agent_part(path))) {
        if (!each->second.agent) continue;
        if (is_of_others(each->second.fingerprint)) return shortfall::model_changed;
        why = shortfall::incompatible;
    }
    return why;
}

void agent_index::set_absent(const lock&, const std::string& path, shortfall why) {
    if (why != shortfall::evicted || commons_->absent.size() < absent_max)
        commons_->absent[path] = why;
}

void agent_index::set_unkept(const lock&, const std::string& path) {
    if (commons_->unkept.size() < absent_max) commons_->unkept.insert(path);
}

agent_index::left_agents agent_index::leave(const lock& locked, const block_hash& fingerprint) {
    left_agents left;
    std::vector<agent_id> ids;
    for (const auto& [id, agent] : agents_) ids.push_back(id);
    for (const agent_id& id : ids) {
        agent_record agent = take(locked, id);
        foreign_manifest kept{std::move(agent.saved), agent.manifest_bytes};
        kept.names.insert(kept.names.end(), agent.attempted.begin(), agent.attempted.end());
        kept.fingerprint = fingerprint;
        kept.tokens = agent.state->tokens.size();
        kept.created = agent.state->created;
        kept.last_used = agent.last_used;
        kept.sessions = session_names(*agent.state);
        kept.policy = agent.state->policy;
        left.states.push_back(std::move(agent.state));
        if (kept.bytes > 0) {
            kept.agent = id;
            add_foreign(locked, shape_.manifest_of(id), std::move(kept));
        } else if (agent.save_failed && !kept.names.empty()) {
            // A failed save may have written its manifest all the same.
            add_foreign(locked, shape_.manifest_of(id), std::move(kept));
        } else {
            left.unneeded.insert(left.unneeded.end(), kept.names.begin(), kept.names.end());
        }
    }
    return left;
}

std::vector<std::string> agent_index::manifests(const lock&) const {
    std::vector<std::string> paths;
    for (const auto& [id, agent] : agents_)
        if (agent.manifest_bytes > 0) paths.push_back(shape_.manifest_of(id));
    for (const auto& [path, each] : commons_->foreign.all()) paths.push_back(path);
    return paths;
}

foreign_manifest agent_index::reconcile(const lock& locked, const std::set<std::string>& gone) {
    ++commons_->reconciliations;
    foreign_manifest left;
    std::size_t made_dirty = 0;
    for (auto& [id, agent] : agents_) {
        const std::string path = shape_.manifest_of(id);
        // Its next manifest is written as a whole, since the file to append to may be gone.
        agent.appendable.reset();
        // A manifest that is being saved or removed is accounted for by that save or removal.
        if (gone.contains(path) && !commons_->turns.contains(path)) {
            left.bytes += std::exchange(agent.manifest_bytes, 0);
            agent.attempted.insert(agent.attempted.end(), agent.saved.begin(), agent.saved.end());
            agent.saved.clear();
            agent.saved_blocks = 0;
        }
        if (agent.dirty || !can_be_written_again(agent, gone.contains(path))) continue;
        agent.mark_dirty();
        agent.save_failed = false;
        ++made_dirty;
    }
    for (const std::string& path : gone) {
        if (commons_->turns.contains(path) || !commons_->foreign.contains(path)) continue;
        const foreign_manifest taken = take_foreign(locked, path);
        left.bytes += taken.bytes;
        left.names.insert(left.names.end(), taken.names.begin(), taken.names.end());
    }
    made_dirty_ = made_dirty_.value_or(0) + made_dirty;
    return left;
}

/// Whether files of the agent are missing and the pool still has every block that they held, so
/// that a save can write them again.
bool agent_index::can_be_written_again(const agent_record& agent, bool lacks_manifest) const {
    bool lost = lacks_manifest;
    for (std::size_t i = 0; i < agent.names.size(); ++i)
        for (const kv_part part : kv_parts) {
            if (files_.is_known(agent.names[i], part)) continue;
            const bool is_hot = agent.state->blocks[i].at(part) != nullptr;
            if (!is_hot && part == kv_part::full) return false;
            lost = lost || is_hot;
        }
    for (std::size_t i = 0; i < agent.kept_names.size(); ++i)
        lost = lost || (agent.state->states[i].state != nullptr && !agent.state->states[i].waits &&
                        !files_.is_known(agent.kept_names[i], kv_part::state));
    return lost;
}

void agent_index::release(const lock&, const agent_id& id) {
    const auto found = held_.find(id);
    if (--found->second == 0) held_.erase(found);
}

}  // namespace semantic::storage

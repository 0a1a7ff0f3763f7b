#include "storage/agents/agent_cache_store.hpp"

#include <algorithm>

#include "storage/agents/agent_cache_store_impl.hpp"
#include "storage/agents/tier_policy.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

bool frees_frames(const agent_state& state) {
    return std::ranges::any_of(state.blocks, [](const kv_block_parts& block) {
        return block.full.use_count() == 1 || block.sliding.use_count() == 1;
    });
}

}  // namespace

// --- blocks ---

std::vector<block_hash> agent_cache_store::impl::names_of(const agent_state& state) const {
    return block_names(options.fingerprint, salt_of(state), state.tokens, block_tokens);
}

agent_cache_store::impl::block_place agent_cache_store::impl::place(
    const agent_state& state, const std::vector<block_hash>& names, std::size_t index) const {
    const std::size_t begin = index * as_size(block_tokens);
    const std::size_t count = std::min(as_size(block_tokens), state.tokens.size() - begin);
    const block_hash parent = index == 0 ? block_hash{} : names[index - 1];
    return {names[index],
            {options.fingerprint, salt_of(state), parent,
             std::span(state.tokens).subspan(begin, count)},
            count == as_size(block_tokens)};
}

/// The first block whose sliding frames a sequence needs to go on behind `tokens` tokens.
std::size_t agent_cache_store::impl::window_start(std::size_t tokens) const {
    const kv_layout& layout = pool.layout();
    if (!layout.slides()) return (tokens + as_size(block_tokens) - 1) / as_size(block_tokens);
    return as_size(layout.first_sliding_block(static_cast<int>(tokens)));
}

bool agent_cache_store::impl::any_hot(const agent_state& state) const {
    return std::ranges::any_of(state.blocks, [](const kv_block_parts& block) {
        return block.full != nullptr || block.sliding != nullptr;
    });
}

bool agent_cache_store::impl::all_hot(const agent_state& state) const {
    const std::size_t sliding_from = window_start(state.tokens.size());
    for (std::size_t i = 0; i < state.blocks.size(); ++i)
        if (state.blocks[i].full == nullptr ||
            (i >= sliding_from && state.blocks[i].sliding == nullptr))
            return false;
    return true;
}

/// Returns: the same part of the same block where it is known already, else `block`, which is known
/// from now on. Requires: the mutex is held.
block_ptr agent_cache_store::impl::adopt(const block_place& at, block_ptr block) {
    return at.full ? known.adopt(at.name, at.identity, std::move(block)) : block;
}

block_ptr agent_cache_store::impl::find_hot(const agent_state& state, std::size_t index,
                                            kv_part part, const block_place& at) {
    if (state.blocks[index].at(part) != nullptr) return state.blocks[index].at(part);
    std::lock_guard lock(mutex);
    if (at.full)
        if (auto block = known.find(at.name, at.identity, part)) return block;
    const auto newest = agents.find(state.id);
    if (newest == agents.end() || !has(newest->second, index, at)) return nullptr;
    return newest->second.state->blocks[index].at(part);
}

/// Whether this is the agent's block of that number: a name alone proves nothing. Requires: the
/// mutex is held.
bool agent_cache_store::impl::has(const record& agent, std::size_t index,
                                  const block_place& at) const {
    if (index >= agent.names.size() || agent.names[index] != at.name) return false;
    if (salt_of(*agent.state) != at.identity.tenant_salt) return false;
    if (index > 0 && agent.names[index - 1] != at.identity.parent) return false;
    const auto own = place(*agent.state, agent.names, index);
    return std::ranges::equal(own.identity.tokens, at.identity.tokens);
}

/// Takes the agent's blocks out of the index. Returns: the former state, whose end may free frames.
/// Requires: the mutex is held, the agent is clean.
state_ptr agent_cache_store::impl::let_go(record& agent) {
    if (!any_hot(*agent.state)) return nullptr;
    auto state = std::make_shared<agent_state>(*agent.state);
    std::fill(state->blocks.begin(), state->blocks.end(), kv_block_parts{});
    ++probe.evictions;
    return std::exchange(agent.state, std::move(state));
}

/// A state that is not saved yet relies on the siblings of blocks that its window has passed: they
/// stay, whatever becomes of the agent that it has them from. Requires: the mutex is held.
void agent_cache_store::impl::pin_passed(record& agent, const std::vector<block_hash>& names,
                                         std::size_t tokens) {
    if (!pool.layout().slides()) return;
    for (std::size_t i = 0; i < std::min(names.size(), window_start(tokens)); ++i)
        if (agent.pinned.insert(names[i]).second) {
            blocks.retain({&names[i], 1});
            agent.attempted.push_back(names[i]);
        }
}

/// Sliding frames that the window has passed and no file has yet may be in the pool as part of an
/// earlier state, of this agent or another: then `block` gets them, to be saved with it. Requires:
/// the mutex is held.
void agent_cache_store::impl::take_over_unsaved(const block_place& at, kv_block_parts& block) {
    constexpr kv_part part = kv_part::sliding;
    if (!pool.layout().slides() || block.sliding != nullptr || !at.full) return;
    if (blocks.is_good(at.name, part)) return;
    block.sliding = known.find(at.name, at.identity, part);
}

/// Gives the agent those of another state's blocks that it has neither in the pool nor on disk.
/// Returns: the former state, or null when there are none. Requires: the mutex is held.
state_ptr agent_cache_store::impl::mend(record& agent, const agent_state& from,
                                        const std::vector<block_hash>& names) {
    std::vector<kv_block_parts> mended = agent.state->blocks;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto at = place(from, names, i);
        if (!has(agent, i, at)) break;
        for (const kv_part part : kv_parts) {
            const block_ptr& block = from.blocks[i].at(part);
            if (block != nullptr && mended[i].at(part) == nullptr &&
                !blocks.is_good(names[i], part))
                mended[i].at(part) = adopt(at, block);
        }
    }
    if (mended == agent.state->blocks) return nullptr;
    auto state = std::make_shared<agent_state>(*agent.state);
    state->blocks = std::move(mended);
    ++agent.version;
    agent.dirty = true;
    return std::exchange(agent.state, std::move(state));
}

/// Takes those sliding frames out of the index that the agent's next token does not need, all of
/// them or only what is on disk. Returns: the former state, or null when there are none. Requires:
/// the mutex is held.
state_ptr agent_cache_store::impl::let_go_of_passed(record& agent, bool saved_only) {
    std::vector<kv_block_parts> kept = agent.state->blocks;
    const std::size_t passed = std::min(kept.size(), window_start(agent.state->tokens.size()));
    for (std::size_t i = 0; i < passed; ++i)
        if (!saved_only || blocks.is_good(agent.names[i], kv_part::sliding))
            kept[i].sliding.reset();
    if (kept == agent.state->blocks) return nullptr;
    auto state = std::make_shared<agent_state>(*agent.state);
    state->blocks = std::move(kept);
    return std::exchange(agent.state, std::move(state));
}

bool agent_cache_store::impl::make_room(std::size_t frames, const agent_id* keep) {
    const auto now = std::chrono::system_clock::now();
    while (pool.free_count() < frames) {
        state_ptr former;  // its end frees the frames, outside the mutex
        std::lock_guard lock(mutex);
        record* dispensable = nullptr;
        const agent_id* unsaved = nullptr;
        std::pair<bool, double> most{false, -1};
        for (auto& [id, agent] : agents) {
            if ((keep != nullptr && id == *keep) || !any_hot(*agent.state)) continue;
            if (!agent.dirty) {
                // Whose blocks others have too frees nothing, or only together with them.
                const std::pair score{
                    frees_frames(*agent.state),
                    dispensability(now - agent.last_used, agent.state->tokens.size())};
                if (score <= most) continue;
                most = score;
                dispensable = &agent;
            } else if (agent.save_failed && !held.contains(id) && !busy.contains(path_of(id))) {
                if (unsaved == nullptr || agent.last_used < agents.at(*unsaved).last_used)
                    unsaved = &id;
            }
        }
        if (dispensable != nullptr) former = let_go(*dispensable);
        // What the disk did not take cannot wait for ever.
        for (auto each = agents.begin(); former == nullptr && each != agents.end(); ++each)
            if (each->second.save_failed) former = let_go_of_passed(each->second, false);
        if (former == nullptr && unsaved != nullptr) former = forget_unsaved(agent_id(*unsaved));
        if (former == nullptr) return pool.free_count() >= frames;
    }
    return true;
}

// --- saving ---

std::vector<agent_cache_store::impl::block_mark> agent_cache_store::impl::marks_of(
    const agent_state& state, const std::vector<block_hash>& names) const {
    std::vector<block_mark> marks;
    const std::size_t per_block = as_size(block_tokens);
    for (std::size_t i = 0; (i + 1) * per_block <= state.tokens.size(); ++i) {
        const auto ends = std::span(state.token_ends).subspan(i * per_block, per_block);
        const std::uint32_t begin = i == 0 ? 0 : state.token_ends[i * per_block - 1];
        marks.push_back(
            {names[i], field_hasher()
                           .add(std::as_bytes(ends))
                           .add(std::string_view(state.text).substr(begin, ends.back() - begin))
                           .finish()});
    }
    return marks;
}

/// Returns: a record to append that brings what is new, or the whole file where there is nothing to
/// append to, or where what was appended has come to be more than a file.
result<agent_cache_store::impl::manifest_plan> agent_cache_store::impl::plan_manifest(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::optional<journal>& before, std::uint64_t file_bytes) const {
    manifest agent;
    for (std::size_t i = 0; i < names.size(); ++i)
        agent.blocks.push_back(
            {names[i], static_cast<int>(place(state, names, i).identity.tokens.size())});
    agent.fingerprint = options.fingerprint;
    agent.agent = state.id.str();
    agent.tenant = state.id.tenant();
    agent.tokens = state.tokens;
    agent.text = state.text;
    agent.token_ends = state.token_ends;
    agent.created = state.created;
    agent.last_used = state.last_used;
    agent.notes = state.notes;
    if (!options.model.empty()) agent.notes[model_note] = options.model;
    agent.notes.erase(private_note);
    if (state.is_private()) agent.notes[private_note] = salt_of(state);
    agent.messages = state.messages;
    manifest_plan plan;
    plan.next.marks = marks_of(state, names);
    plan.next.messages = state.messages;
    if (before) {
        const auto common = std::ranges::mismatch(before->marks, plan.next.marks).in1;
        const auto kept = static_cast<std::size_t>(common - before->marks.begin());
        const auto changed = std::ranges::mismatch(before->messages, agent.messages).in1;
        auto update = encode_update(agent,
                                    {kept, kept * as_size(block_tokens),
                                     static_cast<std::size_t>(changed - before->messages.begin())},
                                    before->seal);
        if (!update) return update.error();
        plan.file_bytes = file_bytes + update->bytes.size();
        // A page on top, so that small agents are not written anew at every turn.
        if (plan.file_bytes <= 2 * before->bytes_at_first + 4096) {
            plan.append = true;
            plan.bytes = std::move(update->bytes);
            plan.next.seal = update->seal;
            plan.next.bytes_at_first = before->bytes_at_first;
            return plan;
        }
    }
    auto whole = encode_manifest(agent);
    if (!whole) return whole.error();
    plan.bytes = std::move(whole->bytes);
    plan.file_bytes = plan.bytes.size();
    plan.next.seal = whole->seal;
    plan.next.bytes_at_first = plan.file_bytes;
    return plan;
}

/// Returns: the state as far as its blocks are full, `names` cut accordingly; null when that is not
/// longer than what a manifest has already.
state_ptr agent_cache_store::impl::without_tail(const state_ptr& state,
                                                std::vector<block_hash>& names) const {
    const std::size_t full = state->tokens.size() / as_size(block_tokens);
    names.resize(full);
    const auto found = agents.find(state->id);
    if (full == 0 || found->second.saved.size() > full || found->second.saved == names)
        return nullptr;
    auto shorter = std::make_shared<agent_state>(*state);
    shorter->tokens.resize(full * as_size(block_tokens));
    shorter->token_ends.resize(shorter->tokens.size());
    shorter->text.resize(shorter->token_ends.back());
    shorter->blocks.resize(full);
    std::erase_if(shorter->messages,
                  [&](const message_end& each) { return each.tokens > shorter->tokens.size(); });
    return shorter;
}

/// Returns: an upper bound for the block files that write_out() will make.
std::uint64_t agent_cache_store::impl::bytes_to_write(const agent_state& state,
                                                      const std::vector<block_hash>& names) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < names.size(); ++i)
        for (const kv_part part : kv_parts)
            if (state.blocks[i].at(part) != nullptr && !blocks.is_good(names[i], part))
                bytes += blocks.bytes_max(part, place(state, names, i).identity.tokens.size());
    return bytes;
}

result<save_report> agent_cache_store::impl::write_out(const std::string& relative,
                                                       const agent_state& state,
                                                       const std::vector<block_hash>& names,
                                                       const manifest_plan& plan) {
    auto room = make_disk_room(bytes_to_write(state, names) + plan.bytes.size());
    if (!room) return room.error();
    save_report report;
    std::optional<failure> lost;
    for (std::size_t i = 0; i < names.size(); ++i) {
        // A block that is only on disk is saved already; if its file is damaged, nobody here can
        // mend it.
        if (state.blocks[i].full == nullptr && !blocks.is_known(names[i], kv_part::full))
            lost = failure{errc::io, full_path(block_path(names[i], kv_part::full)) +
                                         ": the file is gone, and the block is not in memory"};
        for (const kv_part part : kv_parts) {
            const block_ptr& block = state.blocks[i].at(part);
            if (block == nullptr) continue;
            const block_place at = place(state, names, i);
            const auto written = blocks.ensure(at.name, at.identity, *block);
            if (!written) return written.error();
            room->spend(*written);
            report.bytes_written += *written;
            report.blocks_written += *written == 0 ? 0 : 1;
        }
    }
    if (lost) return *lost;
    if (auto ok = blocks.make_lasting(names); !ok) return ok.error();
    const auto ok = plan.append ? append_manifest(files, full_path(relative), plan.bytes)
                                : replace_file(files, full_path(relative), plan.bytes);
    if (!ok) return ok.error();
    quota.add(plan.bytes.size());
    report.bytes_written += plan.bytes.size();
    ++probe.manifests_written;
    probe.bytes_written += plan.bytes.size();
    return report;
}

/// Takes a manifest that is gone, or about to be, off the books of others'. Requires: the mutex is
/// held.
agent_cache_store::impl::foreign_manifest agent_cache_store::impl::take_foreign(
    const std::string& relative) {
    absent.erase(relative);
    const auto found = foreign.find(relative);
    if (found == foreign.end()) return {};
    foreign_manifest taken = std::move(found->second);
    foreign.erase(found);
    return taken;
}

// --- the public face ---

agent_cache_store::agent_cache_store(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
agent_cache_store::~agent_cache_store() = default;

result<std::unique_ptr<agent_cache_store>> agent_cache_store::open(store_options options,
                                                                   block_pool& pool) {
    auto state = std::make_unique<impl>(std::move(options), pool);
    if (auto ok = state->open(); !ok) return ok.error();
    return std::unique_ptr<agent_cache_store>(new agent_cache_store(std::move(state)));
}

void agent_cache_store::put(agent_state state) {
    const auto names = impl_->names_of(state);
    ASSERT(state.blocks.size() == names.size() && impl_->all_hot(state));
    ASSERT(state.token_ends.size() == state.tokens.size());
    // These end after the mutex is released.
    std::vector<block_ptr> duplicates;
    state_ptr former, with_passed;
    std::lock_guard lock(impl_->mutex);
    const agent_id id = state.id;
    impl::record& agent = impl_->agents[id];
    impl_->pin_passed(agent, names, state.tokens.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto at = impl_->place(state, names, i);
        for (const kv_part part : kv_parts) {
            block_ptr& block = state.blocks[i].at(part);
            if (block == nullptr) continue;
            auto kept = impl_->adopt(at, block);
            duplicates.push_back(std::exchange(block, std::move(kept)));
        }
        impl_->take_over_unsaved(at, state.blocks[i]);
    }
    agent.last_used = state.last_used;
    if (agent.state) impl_->by_text.remove(&agent.state);
    impl_->index_messages(id, agent.state.get(), &state);
    former = std::exchange(agent.state, std::make_shared<const agent_state>(std::move(state)));
    impl_->by_text.add(&agent.state);
    agent.names = names;
    ++agent.version;
    agent.dirty = true;
    agent.save_failed = false;  // this state has not been tried yet
    with_passed = impl_->let_go_of_passed(agent, true);
}

void agent_cache_store::put_unfinished(agent_state state) {
    {
        const auto names = impl_->names_of(state);
        state_ptr former;  // ends after the mutex is released
        std::lock_guard lock(impl_->mutex);
        const auto found = impl_->agents.find(state.id);
        if (found != impl_->agents.end()) {
            const agent_state& now = *found->second.state;
            if (now.text.starts_with(state.text)) {
                former = impl_->mend(found->second, state, names);
                return;
            }
            if (std::ranges::mismatch(now.tokens, state.tokens).in1 == now.tokens.end())
                state.messages = now.messages;
        }
    }
    put(std::move(state));
}

result<save_report> agent_cache_store::save(const agent_id& id, save_extent extent) {
    const impl::turn mine(*impl_, impl_->path_of(id));
    impl::repairs left;
    auto report = impl_->save_once(id, extent);
    while (!report && impl_->can_mend(report.error(), left)) report = impl_->save_once(id, extent);
    if (report) return report;
    ++impl_->probe.save_failures;
    if (report.error().code == errc::out_of_space) ++impl_->probe.saves_out_of_space;
    std::lock_guard lock(impl_->mutex);
    if (const auto found = impl_->agents.find(id); found != impl_->agents.end())
        found->second.save_failed = found->second.dirty;
    return report;
}

/// Requires: the agent's turn.
result<save_report> agent_cache_store::impl::save_once(const agent_id& id, save_extent extent) {
    const std::string relative = path_of(id);
    if (auto ok = look_for_files(id, relative); !ok) return ok.error();
    state_ptr state;
    std::vector<block_hash> names;
    std::uint64_t version = 0, file_bytes = 0, stock = 0;
    std::optional<journal> before;
    {
        std::lock_guard lock(mutex);
        const auto found = agents.find(id);
        if (found == agents.end() || !found->second.dirty) return save_report{};
        stock = stock_taken;
        state = found->second.state;
        names = found->second.names;
        version = found->second.version;
        file_bytes = found->second.manifest_bytes;
        if (extent == save_extent::full_blocks) state = without_tail(state, names);
        if (state == nullptr) return save_report{};
        // Whatever goes wrong from here on, the file may then end with anything.
        before = std::exchange(found->second.appendable, std::nullopt);
    }
    blocks.retain(names);
    auto plan = plan_manifest(*state, names, before, file_bytes);
    auto report =
        plan ? write_out(relative, *state, names, *plan) : result<save_report>(plan.error());
    std::vector<block_hash> dropped;
    state_ptr with_passed;  // ends after the mutex is released
    {
        std::lock_guard lock(mutex);
        record& agent = agents.find(id)->second;
        if (report && stock != stock_taken) {
            quota.remove(plan->bytes.size());
            report = failure{errc::not_found, options.directory + ": files went away meanwhile"};
        }
        agent.save_failed = !report;
        with_passed = let_go_of_passed(agent, true);
        if (!report) {
            agent.attempted = concatenated(std::move(agent.attempted), names);
            return report;
        }
        foreign_manifest replaced = take_foreign(relative);
        dropped = concatenated(std::exchange(agent.saved, std::move(names)), replaced.names);
        quota.remove(replaced.bytes);
        if (!plan->append) quota.remove(agent.manifest_bytes);
        agent.manifest_bytes = plan->file_bytes;
        agent.appendable = std::move(plan->next);
        if (agent.version == version && extent == save_extent::everything) {
            agent.dirty = false;
            dropped = concatenated(std::move(dropped), std::exchange(agent.attempted, {}));
            agent.pinned.clear();
        }
    }
    blocks.release(dropped);
    return report;
}

bool agent_cache_store::make_room(std::size_t frames, const agent_id* keep) {
    return impl_->make_room(frames, keep);
}

bool agent_cache_store::evict(const agent_id& id) {
    state_ptr former;
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->agents.find(id);
    if (found == impl_->agents.end() || found->second.dirty) return false;
    former = impl_->let_go(found->second);
    return true;
}

result<void> agent_cache_store::erase(const agent_id& id) {
    const std::string relative = impl_->path_of(id);
    const impl::turn mine(*impl_, relative);
    {
        std::lock_guard lock(impl_->mutex);
        if (!impl_->agents.contains(id) && !impl_->foreign.contains(relative))
            return failure{errc::not_found, "no agent " + id.str()};
    }
    if (auto gone = impl_->unlink_manifest(relative); !gone) return gone;
    state_ptr former;
    std::vector<block_hash> dropped;
    {
        std::lock_guard lock(impl_->mutex);
        impl::foreign_manifest taken = impl_->take_foreign(relative);
        dropped = std::move(taken.names);
        impl_->quota.remove(taken.bytes);
        if (impl_->agents.contains(id)) {
            impl::record agent = impl_->take_out(id);
            former = std::move(agent.state);
            dropped = concatenated(std::move(dropped), impl_->take_files(agent));
        }
    }
    impl_->blocks.release(dropped);
    return {};
}

result<void> agent_cache_store::create(const agent_id& id) {
    {
        std::lock_guard lock(impl_->mutex);
        if (impl_->agents.contains(id))
            return failure{errc::bad_value, "there is an agent " + id.str() + " already"};
        agent_state state{id};
        state.created = state.last_used = std::chrono::system_clock::now();
        impl::record agent;
        agent.last_used = state.last_used;
        agent.version = 1;
        agent.dirty = true;
        agent.state = std::make_shared<const agent_state>(std::move(state));
        const auto added = impl_->agents.emplace(id, std::move(agent)).first;
        impl_->by_text.add(&added->second.state);
    }
    auto saved = save(id);
    return saved ? result<void>() : saved.error();
}

result<void> agent_cache_store::fork(const agent_id& from, const agent_id& to) {
    ASSERT(from.tenant() == to.tenant());  // tenants share nothing
    {
        std::lock_guard lock(impl_->mutex);
        const auto source = impl_->agents.find(from);
        if (source == impl_->agents.end())
            return failure{errc::not_found, "no agent " + from.str()};
        if (impl_->agents.contains(to))
            return failure{errc::bad_value, "there is an agent " + to.str() + " already"};
        agent_state state = *source->second.state;
        state.id = to;
        state.created = state.last_used = std::chrono::system_clock::now();
        state.messages.clear();
        impl::record agent;
        agent.last_used = state.last_used;
        agent.names = source->second.names;
        agent.version = 1;
        agent.dirty = true;
        // Files that the source alone needs must not go before the first save.
        agent.attempted = agent.names;
        impl_->blocks.retain(agent.names);
        agent.state = std::make_shared<const agent_state>(std::move(state));
        const auto added = impl_->agents.emplace(to, std::move(agent)).first;
        impl_->by_text.add(&added->second.state);
    }
    auto saved = save(to);
    return saved ? result<void>() : saved.error();
}

agent_cache_store::pin agent_cache_store::hold(const agent_id& id) {
    std::lock_guard lock(impl_->mutex);
    ++impl_->held[id];
    return {*impl_, id};
}

agent_cache_store::pin::~pin() {
    if (store_ == nullptr) return;
    std::lock_guard lock(store_->mutex);
    const auto found = store_->held.find(id_);
    if (--found->second == 0) store_->held.erase(found);
}

const store_probe& agent_cache_store::probe() const noexcept { return impl_->probe; }

}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_cache_store.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "storage/agents/agent_restorer.hpp"
#include "storage/agents/agent_saver.hpp"
#include "storage/agents/cache_directory.hpp"
#include "storage/agents/evictor.hpp"
#include "storage/agents/memory_lists.hpp"
#include "storage/agents/policy/tier_policy.hpp"
#include "storage/agents/store_parts.hpp"
#include "storage/disk/agent_file.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/disk/record_files.hpp"
#include "storage/files/checksum.hpp"
#include "storage/pool/block_frames.hpp"
#include "storage/pool/session_note.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

struct agent_cache_store::impl {
    impl(store_options options, block_pool& pool, std::shared_ptr<open_directory> home)
        : parts(std::move(options), pool, std::move(home)) {}

    store_parts parts;
    evictor room{parts};
    cache_directory directory{parts, room};
    agent_restorer restorer{parts, room};
    agent_saver saver{parts, room, directory};
    record_files records{parts.files, parts.options.directory, parts.quota,
                         [this](const tenant_id& tenant, std::uint64_t bytes) {
                             return room_for_record(tenant, bytes);
                         },
                         parts.home->records};

    /// Reserves disk bytes for a record, after the directory was created again where somebody had
    /// removed it. Errors: those of keep() and free_disk_for_record().
    result<disk_quota::promise> room_for_record(const tenant_id& tenant, std::uint64_t bytes) {
        if (auto ok = directory.keep(); !ok) return ok.error();
        return room.free_disk_for_record(tenant, bytes);
    }
};

namespace {

/// The error of creating or forking an agent under a name that is taken.
failure is_there_already(const agent_id& id) {
    return {errc::bad_value, "there is an agent " + id.str() + " already"};
}

/// Whether any model remembers the agent.
bool is_remembered(const store_parts& parts, const agent_index::lock& locked, const agent_id& id) {
    for (const agent_index* each : parts.index.members(locked))
        if (each->find(locked, id) != nullptr) return true;
    // All manifests of an agent, of whatever model, have paths that begin alike.
    const std::string own = parts.shape.manifest_of(id);
    return std::ranges::any_of(parts.index.foreign(locked).beginning_with(agent_part(own)),
                               [&](const auto& each) { return each->second.agent == id; });
}

/// Why the loaded model has no memory of the agent.
failure no_memory(const store_parts& parts, const agent_index::lock& locked, const agent_id& id) {
    if (!is_remembered(parts, locked, id)) return {errc::not_found, "no agent " + id.str()};
    return {errc::not_found,
            "another model remembers agent " + id.str() + ", the loaded one has no memory of it"};
}

/// Returns: the index entry of an agent that was created just now: dirty, since no manifest names
/// it yet.
agent_record new_record(agent_state state) {
    state.created = state.last_used = std::chrono::system_clock::now();
    agent_record agent;
    agent.last_used = state.last_used;
    agent.mark_dirty();
    agent.state = std::make_shared<const agent_state>(std::move(state));
    return agent;
}

/// Shortens `state` to the block that contains its token number `tokens`, that block included, and
/// drops the recurrent states that lie beyond that number. Tokens, their ends and the text are cut
/// at the same block boundary.
void cut(agent_state& state, std::size_t tokens, std::size_t block_tokens) {
    const std::size_t blocks = (tokens + block_tokens - 1) / block_tokens;
    state.states.resize(count_kept_within(state.states, tokens));
    if (blocks >= state.blocks.size()) return;
    state.blocks.resize(blocks);
    state.tokens.resize(blocks * block_tokens);
    state.token_ends.resize(state.tokens.size());
    state.text.resize(state.tokens.empty() ? 0 : state.token_ends.back());
}

}  // namespace

// --- opening ---

std::shared_ptr<directory_share> make_directory_share() {
    return std::make_shared<directory_share>();
}

agent_cache_store::agent_cache_store(std::unique_ptr<impl> state,
                                     std::shared_ptr<directory_share> share)
    : share_(std::move(share)), impl_(std::move(state)) {}

agent_cache_store::~agent_cache_store() {
    // The next caller that opens the directory finds it open, or its lock free.
    const std::lock_guard one_at_a_time(share_->mutex);
    impl_.reset();
}

result<std::unique_ptr<agent_cache_store>> agent_cache_store::open(store_options options,
                                                                   block_pool& pool) {
    auto share = options.share != nullptr ? options.share : make_directory_share();
    const std::lock_guard one_at_a_time(share->mutex);
    auto home = share->open.lock();
    const bool is_first = home == nullptr;
    if (is_first) {
        file_system& files = options.files != nullptr ? *options.files : posix_file_system();
        home = std::make_shared<open_directory>(files, options.directory, options.kv_events);
        home->writes.set_limits(options.writes);
    }
    if (home->path != options.directory)
        return failure{errc::bad_value, options.directory + " is not " + home->path +
                                            ", which the stores of this process have open"};
    auto state = std::make_unique<impl>(std::move(options), pool, home);
    if (auto ok = state->directory.open(); !ok) return ok.error();
    // The stores of a directory share one set of records, so only the first store reads them.
    if (is_first)
        if (auto ok = state->records.open(); !ok) return ok.error();
    share->open = home;
    return std::unique_ptr<agent_cache_store>(
        new agent_cache_store(std::move(state), std::move(share)));
}

tenant_id agent_cache_store::tenant(std::string_view credential) const {
    return {field_hasher().add(impl_->directory.secret()).add(credential).finish()};
}

// --- looking up ---

std::shared_ptr<const agent_state> agent_cache_store::find(const agent_id& id) const {
    const agent_index::lock locked(impl_->parts.index);
    const agent_record* agent = impl_->parts.index.find(locked, id);
    return agent == nullptr ? nullptr : agent->state;
}

std::vector<prefix_neighbour> agent_cache_store::closest(const tenant_id& tenant,
                                                         std::string_view text,
                                                         std::size_t count_max) const {
    const agent_index& index = impl_->parts.index;
    return index.closest(agent_index::lock(index), tenant, text, count_max);
}

std::optional<message_place> agent_cache_store::find_message(const tenant_id& tenant,
                                                             const std::string& id) const {
    const agent_index& index = impl_->parts.index;
    return index.find_message(agent_index::lock(index), tenant, id);
}

shortfall agent_cache_store::why_absent(const agent_id& id) const {
    const agent_index& index = impl_->parts.index;
    const agent_index::lock locked(index);
    if (index.find(locked, id) != nullptr) return shortfall::none;
    return index.why_absent(locked, impl_->parts.shape.manifest_of(id), impl_->parts.options.model,
                            &id);
}

std::vector<agent_summary> agent_cache_store::list() const {
    return summaries_of(impl_->parts, nullptr);
}

std::vector<agent_summary> agent_cache_store::list(const tenant_id& tenant) const {
    return summaries_of(impl_->parts, &tenant);
}

std::vector<agent_id> agent_cache_store::ids() const {
    const agent_index::lock locked(impl_->parts.index);
    std::vector<agent_id> found;
    for (const auto& [id, agent] : impl_->parts.index.agents(locked)) found.push_back(id);
    return found;
}

std::vector<blocks_stored> agent_cache_store::stored_blocks(const agent_id& id) const {
    const store_parts& parts = impl_->parts;
    state_ptr state;
    std::vector<block_hash> names;
    {
        const agent_index::lock locked(parts.index);
        const agent_record* agent = parts.index.find(locked, id);
        if (agent == nullptr) return {};
        state = agent->state;
        names = agent->names;
    }
    return parts.runs_of(*state, names, [&](std::size_t i) {
        return parts.blocks.is_good(names[i], kv_part::full);
    });
}

std::optional<agent_summary> agent_cache_store::inspect(const agent_id& id) const {
    const agent_index::lock locked(impl_->parts.index);
    const agent_record* agent = impl_->parts.index.find(locked, id);
    if (agent == nullptr) return std::nullopt;
    if (!agent->state->policy.is_empty()) impl_->parts.weigh_disk_claims(locked);
    return summary_of(impl_->parts, locked, id, *agent);
}

std::vector<other_memory> agent_cache_store::list_others() const {
    return other_memories_of(impl_->parts, nullptr);
}

std::vector<other_memory> agent_cache_store::list_others(const tenant_id& tenant) const {
    return other_memories_of(impl_->parts, &tenant);
}

std::vector<other_memory> agent_cache_store::inspect_others(const agent_id& id) const {
    return other_memories_of(impl_->parts, id);
}

tenant_usage agent_cache_store::usage(const tenant_id& tenant) const {
    return usage_of(impl_->parts, tenant);
}

std::vector<agent_id> agent_cache_store::dirty_agents() const {
    const auto now = std::chrono::system_clock::now();
    std::vector<std::tuple<memory_claim, double, agent_id>> found;
    {
        const agent_index::lock locked(impl_->parts.index);
        impl_->parts.weigh_disk_claims(locked);
        for (const auto& [id, agent] : impl_->parts.index.agents(locked))
            if (agent.dirty)
                found.emplace_back(
                    agent.claim, -dispensability(now - agent.last_used, agent.state->tokens.size()),
                    id);
    }
    std::ranges::sort(found, std::greater());
    std::vector<agent_id> ids;
    for (auto& [claim, score, id] : found) ids.push_back(std::move(id));
    return ids;
}

std::string agent_cache_store::take_warning() {
    const auto agents = impl_->parts.index.take_made_dirty(agent_index::lock(impl_->parts.index));
    if (!agents) return {};
    return impl_->parts.options.directory + ": files of agents were gone; " +
           std::to_string(*agents) + " agents are to be saved again";
}

const store_probe& agent_cache_store::probe() const noexcept { return impl_->parts.probe; }

// --- restoring ---

result<restored_prefix> agent_cache_store::restore(const agent_state& state, int tokens,
                                                   prefix_receiver* early) {
    return impl_->restorer.restore(state, tokens, early);
}

std::optional<restored_prefix> agent_cache_store::restore_hot(const agent_state& state,
                                                              int tokens) {
    return impl_->restorer.restore_hot(state, tokens);
}

std::optional<agent_cache_store::kept_files> agent_cache_store::keep_files(const agent_state& state,
                                                                           int tokens) {
    store_parts& parts = impl_->parts;
    auto names = parts.shape.names_of(state);
    auto kept_names = parts.shape.kept_names_of(state, names);
    kept_names.resize(count_kept_within(state.states, as_size(tokens)));
    names.resize(parts.shape.count_for(as_size(tokens)));
    // The blocks' names come first, so that name number i is that of block number i below.
    names = concatenated(std::move(names), kept_names);
    parts.blocks.retain(names);
    kept_files kept(*impl_, std::move(names));
    // A block that is neither in the pool nor in a known file may be gone already.
    for (const auto& [i, part] : parts.shape.needed_for(tokens))
        if (part == kv_part::full && state.blocks[i].full == nullptr &&
            !parts.blocks.is_known(kept.names_[i], part))
            return std::nullopt;
    return kept;
}

bool agent_cache_store::kept_files::release_shared() {
    store_->parts.blocks.release_shared(names_);
    return names_.empty();
}

agent_cache_store::kept_files::~kept_files() {
    // Null: the object was moved from.
    if (store_ != nullptr) store_->parts.blocks.release(names_);
}

std::shared_ptr<const agent_state> agent_cache_store::without_saved(
    const agent_state& state) const {
    const store_parts& parts = impl_->parts;
    if (!state_blocks::any_hot(state)) return nullptr;
    std::vector<kv_block_parts> unsaved = state.blocks;
    const auto names = parts.shape.names_of(state);
    for (std::size_t i = 0; i < names.size(); ++i)
        for (const kv_part part : kv_parts)
            if (parts.blocks.is_good(names[i], part)) unsaved[i].at(part).reset();
    std::vector<kept_state> kept = state.states;
    const auto kept_names = parts.shape.kept_names_of(state, names);
    for (std::size_t i = 0; i < kept.size(); ++i)
        if (parts.blocks.is_good(kept_names[i], kv_part::state)) kept[i].state.reset();
    if (unsaved == state.blocks && kept == state.states) return nullptr;
    auto bare = std::make_shared<agent_state>(state);
    bare->blocks = std::move(unsaved);
    bare->states = std::move(kept);
    return bare;
}

// --- publishing and saving ---

void agent_cache_store::put(agent_state state) {
    store_parts& parts = impl_->parts;
    auto names = parts.shape.names_of(state);
    ASSERT(state.blocks.size() == names.size() && parts.shape.all_hot(state));
    ASSERT(state.token_ends.size() == state.tokens.size());
    agent_index::outdated out;  // destroyed after the lock is released
    const agent_index::lock locked(parts.index);
    out = parts.index.publish(locked, std::move(state), std::move(names));
}

void agent_cache_store::put_unfinished(agent_state state) {
    agent_index& index = impl_->parts.index;
    {
        const auto names = impl_->parts.shape.names_of(state);
        state_ptr former, former_policy;  // destroyed after the lock
        const agent_index::lock locked(index);
        if (agent_record* agent = index.find(locked, state.id)) {
            const agent_state& now = *agent->state;
            if (now.text.starts_with(state.text)) {
                former = index.add_missing_blocks(locked, *agent, state, names);
                const memory_policy policy = state.policy.or_else(now.policy);
                if (policy != agent->state->policy)
                    former_policy = index.set_policy(locked, *agent, policy);
                return;
            }
            const bool extends =
                std::ranges::mismatch(now.tokens, state.tokens).in1 == now.tokens.end();
            if (extends) state.messages = now.messages;
        }
    }
    // The lock is released here, since put() takes it.
    put(std::move(state));
}

result<save_report> agent_cache_store::save(const agent_id& id, save_extent extent) {
    return impl_->saver.save(id, extent);
}

result<void> agent_cache_store::create(const agent_id& id) {
    {
        agent_index& index = impl_->parts.index;
        const agent_index::lock locked(index);
        if (is_remembered(impl_->parts, locked, id)) return is_there_already(id);
        index.add(locked, new_record(agent_state{id}));
    }
    auto saved = save(id);
    return saved ? result<void>() : saved.error();
}

result<void> agent_cache_store::set_policy(const agent_id& id, const memory_policy& policy) {
    {
        state_ptr former;  // destroyed after the lock
        agent_index& index = impl_->parts.index;
        const agent_index::lock locked(index);
        agent_record* agent = index.find(locked, id);
        if (agent == nullptr) return no_memory(impl_->parts, locked, id);
        former = index.set_policy(locked, *agent, policy);
    }
    auto saved = save(id);
    return saved ? result<void>() : saved.error();
}

bool agent_cache_store::is_unkept(const agent_id& id) const {
    const agent_index& index = impl_->parts.index;
    return index.is_unkept(agent_index::lock(index), manifest_of(id));
}

agent_cache_store::written_bytes agent_cache_store::end_turn(const agent_id& id) {
    agent_index& index = impl_->parts.index;
    const agent_index::lock locked(index);
    agent_record* agent = index.find(locked, id);
    if (agent == nullptr) return {};
    agent->bytes_of_last_turn = std::exchange(agent->bytes_of_turn, 0);
    return {agent->bytes_of_last_turn, agent->bytes_written, agent->dirty && agent->is_over_bound};
}

std::uint64_t agent_cache_store::bytes_written_today() const {
    return impl_->parts.home->writes.bytes_of_day(write_bound::clock::now());
}

result<void> agent_cache_store::fork(const agent_id& from, const agent_id& to, bool is_branch,
                                     const std::optional<fork_place>& at) {
    ASSERT(from.tenant() == to.tenant());  // tenants share nothing
    {
        agent_index& index = impl_->parts.index;
        const agent_index::lock locked(index);
        const agent_record* source = index.find(locked, from);
        if (source == nullptr) return no_memory(impl_->parts, locked, from);
        if (is_remembered(impl_->parts, locked, to)) return is_there_already(to);
        agent_state state = *source->state;
        if (at && at->tokens > state.tokens.size())
            return failure{errc::bad_value, "agent " + from.str() + " has " +
                                                std::to_string(state.tokens.size()) + " tokens"};
        if (at) cut(state, at->tokens, impl_->parts.shape.block_tokens());
        if (at) state.notes = at->notes;
        state.id = to;
        state.messages.clear();
        state.policy = {};
        // A fork belongs to no session. A branch belongs to those of the source, and to the source.
        const auto note = state.notes.extract(sessions_note);
        if (is_branch)
            state.notes[sessions_note] =
                add_session(note ? note.mapped() : std::string(), from.str());
        agent_record agent = new_record(std::move(state));
        agent.names = source->names;
        agent.names.resize(agent.state->blocks.size());
        agent.kept_names = source->kept_names;
        agent.kept_names.resize(agent.state->states.size());
        // The fork retains the source's files: otherwise an erasure of the source could delete them
        // before the fork's own manifest names them.
        agent.attempted = concatenated(agent.names, agent.kept_names);
        impl_->parts.blocks.retain(agent.attempted);
        index.add(locked, std::move(agent));
    }
    auto saved = save(to);
    return saved ? result<void>() : saved.error();
}

std::string agent_cache_store::manifest_of(const agent_id& id) const {
    return impl_->parts.shape.manifest_of(id);
}

void agent_cache_store::spare(const std::string& manifest, bool is_spared) {
    impl_->parts.index.spare(agent_index::lock(impl_->parts.index), manifest, is_spared);
}

result<void> agent_cache_store::adopt(const agent_id& id, const std::string& manifest,
                                      const file_source& blocks) {
    return impl_->directory.adopt(id, manifest, blocks);
}

// --- agents as files ---

result<std::uint64_t> agent_cache_store::export_agent(const agent_id& id, const byte_sink& sink) {
    const pin held = hold(id);
    const auto state = find(id);
    if (state == nullptr) return no_memory(impl_->parts, agent_index::lock(impl_->parts.index), id);
    const auto whole = impl_->restorer.restore_whole(*state);
    if (!whole) return whole.error();
    return write_agent_file(*whole, impl_->parts.options.fingerprint, impl_->parts.shape.layout(),
                            sink);
}

result<int> agent_cache_store::import_agent(const agent_id& id, readable_file& file,
                                            const state_check& check) {
    const store_parts& parts = impl_->parts;
    const kv_layout& layout = parts.shape.layout();
    const auto count = check_agent_file(file, parts.options.fingerprint, layout);
    if (!count) return count.error();
    impl_->room.free_frames_for(
        id, parts.shape.count_for(as_size(count->tokens)) * frames_of_block(layout) +
                layout.wide_frames() + count->states * layout.state_frames());
    auto state = read_agent_file(file, id, parts.options.fingerprint, parts.pool);
    if (!state) return state.error();
    if (auto ok = check(*state); !ok) return ok.error();
    // Notes that the store writes itself mean nothing when they come from another store.
    for (const char* own : {sessions_note, model_note, model_name_note, private_note, states_note,
                            policy_note, written_note})
        state->notes.erase(own);
    // The next save adds the store's own notes, states_note only where there are states. They count
    // in the limit too.
    const std::size_t added = own_notes + (state->states.empty() ? 0 : 1);
    if (state->notes.size() + added > manifest_notes_max)
        return failure{errc::corrupt, "it has too many notes"};
    // Nothing proves that this KV belongs to its tokens. A random salt gives the blocks names that
    // no other agent's prompt can produce, so no other sequence ever runs on them.
    const std::string salt = random_bytes(state->private_salt.bytes.size());
    std::ranges::copy(salt, state->private_salt.bytes.begin());
    put(std::move(*state));
    return count->tokens;
}

// --- making room ---

bool agent_cache_store::make_room(std::size_t frames, const agent_id* keep) {
    return impl_->room.free_frames(frames, keep);
}

bool agent_cache_store::evict(const agent_id& id) { return impl_->room.evict(id); }

std::vector<agent_id> agent_cache_store::branches_of(const agent_id& session) const {
    std::set<agent_id> found;
    // Adds `id` where the session names in its note include `session`.
    const auto look = [&](const agent_id& id, const std::string& note) {
        const bool is_other = id.tenant() == session.tenant() && id != session;
        if (is_other && names_session(note, session.str())) found.insert(id);
    };
    const agent_index& index = impl_->parts.index;
    const agent_index::lock locked(index);
    for (const agent_index* each : index.members(locked))
        for (const auto& [id, agent] : each->agents(locked)) look(id, session_names(*agent.state));
    for (const auto& [path, each] : index.foreign(locked).all())
        if (each.agent) look(*each.agent, each.sessions);
    return {found.begin(), found.end()};
}

result<void> agent_cache_store::erase(const agent_id& id) { return impl_->room.erase(id); }

result<void> agent_cache_store::erase(const agent_id& id, const block_hash& fingerprint) {
    return impl_->room.erase(id, fingerprint);
}

result<void> agent_cache_store::disk_room::grow(std::uint64_t bytes) {
    if (auto made = store_->room.free_disk_for_upload(tenant_, bytes); !made) return made;
    bytes_ += bytes;
    return {};
}

agent_cache_store::disk_room::~disk_room() {
    if (bytes_ > 0) store_->parts.quota.remove_upload(bytes_);
}

record_files& agent_cache_store::records() noexcept { return impl_->records; }

agent_cache_store::pin agent_cache_store::hold(const agent_id& id) {
    impl_->parts.index.hold(agent_index::lock(impl_->parts.index), id);
    return {*impl_, id};
}

agent_cache_store::pin::~pin() {
    if (store_ == nullptr) return;
    store_->parts.index.release(agent_index::lock(store_->parts.index), id_);
}

}  // namespace semantic::storage

#include "storage/agent_cache_store.hpp"

#include <algorithm>

#include "storage/agent_cache_store_impl.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

using clock = std::chrono::system_clock;

std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

std::vector<block_hash> concatenated(std::vector<block_hash> first,
                                     const std::vector<block_hash>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

bool any_hot(const agent_state& state) {
    return std::ranges::any_of(state.blocks,
                               [](const block_ptr& block) { return block != nullptr; });
}

bool all_hot(const agent_state& state) {
    return std::ranges::all_of(state.blocks,
                               [](const block_ptr& block) { return block != nullptr; });
}

shortfall shortfall_of(errc code) {
    if (code == errc::not_found) return shortfall::evicted;
    return code == errc::incompatible ? shortfall::incompatible : shortfall::corrupt;
}

}  // namespace

// --- blocks ---

std::vector<block_hash> agent_cache_store::impl::names_of(const agent_state& state) const {
    return block_names(options.fingerprint, options.tenant_salt, state.tokens, block_tokens);
}

agent_cache_store::impl::block_place agent_cache_store::impl::place(
    const agent_state& state, const std::vector<block_hash>& names, std::size_t index) const {
    const std::size_t begin = index * as_size(block_tokens);
    const std::size_t count = std::min(as_size(block_tokens), state.tokens.size() - begin);
    const block_hash parent = index == 0 ? block_hash{} : names[index - 1];
    return {names[index],
            {options.fingerprint, options.tenant_salt, parent,
             std::span(state.tokens).subspan(begin, count)},
            count == as_size(block_tokens)};
}

/// Requires: the mutex is held, the place is a full block.
block_ptr agent_cache_store::impl::find_known(const block_place& at) {
    const auto found = known.find(at.name);
    if (found == known.end() || found->second.parent != at.identity.parent ||
        !std::ranges::equal(found->second.tokens, at.identity.tokens))
        return nullptr;
    return found->second.block.lock();
}

/// Returns: the block already known to be the same, else `block`, which is known from now on.
/// Requires: the mutex is held.
block_ptr agent_cache_store::impl::adopt(const block_place& at, block_ptr block) {
    if (!at.full) return block;
    if (auto same = find_known(at)) return same;
    if (known.size() >= purge_known_at) {
        std::erase_if(known, [](const auto& each) { return each.second.block.expired(); });
        purge_known_at = std::max<std::size_t>(1024, known.size() * 2);
    }
    known[at.name] = {
        block, at.identity.parent, {at.identity.tokens.begin(), at.identity.tokens.end()}};
    return block;
}

block_ptr agent_cache_store::impl::find_hot(const agent_state& state, std::size_t index,
                                            const block_place& at) {
    if (state.blocks[index] != nullptr) return state.blocks[index];
    std::lock_guard lock(mutex);
    if (at.full)
        if (auto same = find_known(at)) return same;
    const auto newest = agents.find(state.id);
    if (newest == agents.end() || index >= newest->second.names.size() ||
        newest->second.names[index] != at.name)
        return nullptr;
    return newest->second.state->blocks[index];
}

void agent_cache_store::impl::count_damage(const block_place& at, errc code) {
    if (code == errc::not_found)
        ++probe.blocks_missing;
    else
        ++probe.blocks_corrupt;
    blocks.distrust(at.name);
    // Whoever still has the block in the pool can mend the file.
    std::lock_guard lock(mutex);
    for (auto& [id, agent] : agents)
        for (std::size_t i = 0; i < agent.names.size(); ++i)
            if (agent.names[i] == at.name && agent.state->blocks[i] != nullptr) {
                agent.dirty = true;
                ++agent.version;
            }
}

/// Makes the restored blocks part of the agent's newest state, where that has the same ones.
void agent_cache_store::impl::publish(const agent_id& id, const std::vector<block_hash>& names,
                                      const std::vector<block_ptr>& restored) {
    state_ptr former;  // destroyed after the mutex is released
    std::lock_guard lock(mutex);
    const auto found = agents.find(id);
    if (found == agents.end()) return;
    record& agent = found->second;
    agent.last_used = clock::now();
    std::vector<block_ptr> merged = agent.state->blocks;
    const std::size_t count = std::min(merged.size(), restored.size());
    for (std::size_t i = 0; i < count && agent.names[i] == names[i]; ++i)
        if (merged[i] == nullptr) merged[i] = restored[i];
    if (merged == agent.state->blocks) return;
    auto state = std::make_shared<agent_state>(*agent.state);
    state->blocks = std::move(merged);
    former = std::exchange(agent.state, std::move(state));
}

/// Takes the agent's blocks out of the index. Returns: the former state, whose end may free frames.
/// Requires: the mutex is held, the agent is clean.
state_ptr agent_cache_store::impl::let_go(record& agent) {
    if (!any_hot(*agent.state)) return nullptr;
    auto state = std::make_shared<agent_state>(*agent.state);
    std::fill(state->blocks.begin(), state->blocks.end(), nullptr);
    ++probe.evictions;
    return std::exchange(agent.state, std::move(state));
}

// --- saving ---

result<save_report> agent_cache_store::impl::write_out(const std::string& relative,
                                                       const agent_state& state,
                                                       const std::vector<block_hash>& names,
                                                       std::uint64_t& manifest_bytes) {
    save_report report;
    manifest record_of;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const block_place at = place(state, names, i);
        record_of.blocks.push_back({at.name, static_cast<int>(at.identity.tokens.size())});
        // A block that is only on disk is saved already; if its file is damaged, nobody here can
        // mend it.
        if (state.blocks[i] == nullptr) continue;
        const auto written = blocks.ensure(at.name, at.identity, pool.layout(), *state.blocks[i]);
        if (!written) return written.error();
        report.bytes_written += *written;
        report.blocks_written += *written == 0 ? 0 : 1;
    }
    if (auto ok = blocks.make_lasting(names); !ok) return ok.error();

    record_of.fingerprint = options.fingerprint;
    record_of.agent = state.id.str();
    record_of.tokens = state.tokens;
    record_of.text = state.text;
    record_of.token_ends = state.token_ends;
    record_of.created = state.created;
    record_of.last_used = state.last_used;
    record_of.notes = state.notes;
    const auto encoded = encode_manifest(record_of);
    if (!encoded) return encoded.error();
    const auto written = replace_manifest(files, full_path(relative), *encoded);
    if (!written) return written.error();
    manifest_bytes = *written;
    report.bytes_written += *written;
    ++probe.manifests_written;
    probe.bytes_written += *written;
    return report;
}

/// Returns: what a manifest that is gone now had retained. Requires: the mutex is held.
std::vector<block_hash> agent_cache_store::impl::take_foreign(const std::string& relative) {
    absent.erase(relative);
    const auto found = foreign.find(relative);
    if (found == foreign.end()) return {};
    std::vector<block_hash> names = std::move(found->second);
    foreign.erase(found);
    return names;
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

std::shared_ptr<const agent_state> agent_cache_store::find(const agent_id& id) const {
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->agents.find(id);
    return found == impl_->agents.end() ? nullptr : found->second.state;
}

shortfall agent_cache_store::why_absent(const agent_id& id) const {
    std::lock_guard lock(impl_->mutex);
    if (impl_->agents.contains(id)) return shortfall::none;
    const auto found = impl_->absent.find(impl_->path_of(id));
    return found == impl_->absent.end() ? shortfall::none : found->second;
}

result<restored_prefix> agent_cache_store::restore(const agent_state& state, int tokens) {
    ASSERT(tokens >= 0 && as_size(tokens) <= state.tokens.size());
    const std::size_t per_block = as_size(impl_->block_tokens);
    const std::size_t needed = (as_size(tokens) + per_block - 1) / per_block;
    const auto names = impl_->names_of(state);
    ASSERT(state.blocks.size() == names.size());
    restored_prefix restored;
    for (std::size_t i = 0; i < needed; ++i) {
        const auto at = impl_->place(state, names, i);
        auto block = impl_->find_hot(state, i, at);
        const int tokens_here =
            static_cast<int>(std::min(as_size(tokens), (i + 1) * per_block)) - restored.tokens;
        if (block == nullptr) {
            const std::size_t frames = as_size(impl_->pool.layout().layer_count());
            make_room(frames, &state.id);
            auto read = impl_->blocks.read(at.name, at.identity, impl_->pool);
            // Somebody else may have taken the room first.
            while (!read && read.error().code == errc::pool_exhausted &&
                   make_room(frames, &state.id))
                read = impl_->blocks.read(at.name, at.identity, impl_->pool);
            if (!read) {
                if (read.error().code == errc::pool_exhausted) return read.error();
                impl_->count_damage(at, read.error().code);
                restored.why = shortfall_of(read.error().code);
                restored.detail = read.error().what;
                break;
            }
            restored.bytes_read += read->bytes;
            restored.tokens_read += tokens_here;
            std::lock_guard lock(impl_->mutex);
            block = impl_->adopt(at, std::move(read->block));
        }
        restored.blocks.push_back(std::move(block));
        restored.tokens += tokens_here;
    }
    impl_->publish(state.id, names, restored.blocks);
    return restored;
}

void agent_cache_store::put(agent_state state) {
    const auto names = impl_->names_of(state);
    ASSERT(state.blocks.size() == names.size() && all_hot(state));
    ASSERT(state.token_ends.size() == state.tokens.size());
    std::vector<block_ptr>
        duplicates;  // these and the former state end after the mutex is released
    state_ptr former;
    std::lock_guard lock(impl_->mutex);
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto at = impl_->place(state, names, i);
        auto kept = impl_->adopt(at, state.blocks[i]);
        duplicates.push_back(std::exchange(state.blocks[i], std::move(kept)));
    }
    const agent_id id = state.id;
    impl::record& agent = impl_->agents[id];
    agent.last_used = state.last_used;
    former = std::exchange(agent.state, std::make_shared<const agent_state>(std::move(state)));
    agent.names = names;
    ++agent.version;
    agent.dirty = true;
}

result<save_report> agent_cache_store::save(const agent_id& id) {
    const impl::turn mine(*impl_, id);
    state_ptr state;
    std::vector<block_hash> names;
    std::uint64_t version = 0;
    {
        std::lock_guard lock(impl_->mutex);
        const auto found = impl_->agents.find(id);
        if (found == impl_->agents.end() || !found->second.dirty) return save_report{};
        state = found->second.state;
        names = found->second.names;
        version = found->second.version;
    }
    const std::string relative = impl_->path_of(id);
    std::uint64_t manifest_bytes = 0;
    impl_->blocks.retain(names);
    auto report = impl_->write_out(relative, *state, names, manifest_bytes);
    std::vector<block_hash> dropped;
    {
        std::lock_guard lock(impl_->mutex);
        impl::record& agent = impl_->agents.find(id)->second;
        if (!report) {
            agent.attempted = concatenated(std::move(agent.attempted), names);
            ++impl_->probe.save_failures;
            return report;
        }
        dropped = concatenated(std::exchange(agent.saved, std::move(names)),
                               std::exchange(agent.attempted, {}));
        dropped = concatenated(std::move(dropped), impl_->take_foreign(relative));
        agent.manifest_bytes = manifest_bytes;
        if (agent.version == version) agent.dirty = false;
    }
    impl_->blocks.release(dropped);
    return report;
}

bool agent_cache_store::make_room(std::size_t frames, const agent_id* keep) {
    while (impl_->pool.free_count() < frames) {
        state_ptr former;  // its end frees the frames, outside the mutex
        std::lock_guard lock(impl_->mutex);
        impl::record* oldest = nullptr;
        for (auto& [id, agent] : impl_->agents) {
            if (agent.dirty || (keep != nullptr && id == *keep) || !any_hot(*agent.state)) continue;
            if (oldest == nullptr || agent.last_used < oldest->last_used) oldest = &agent;
        }
        if (oldest == nullptr) return impl_->pool.free_count() >= frames;
        former = impl_->let_go(*oldest);
    }
    return true;
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
    const impl::turn mine(*impl_, id);
    const std::string relative = impl_->path_of(id);
    {
        std::lock_guard lock(impl_->mutex);
        if (!impl_->agents.contains(id) && !impl_->foreign.contains(relative))
            return failure{errc::not_found, "no agent " + id.str()};
    }
    auto gone = impl_->files.unlink(impl_->full_path(relative));
    if (!gone && gone.error().code != errc::not_found) return gone;
    if (auto ok = impl_->files.sync_directory(impl_->full_path("agents")); !ok) return ok;
    state_ptr former;
    std::vector<block_hash> dropped;
    {
        std::lock_guard lock(impl_->mutex);
        dropped = impl_->take_foreign(relative);
        if (const auto found = impl_->agents.find(id); found != impl_->agents.end()) {
            former = found->second.state;
            dropped = concatenated(std::move(dropped), found->second.saved);
            dropped = concatenated(std::move(dropped), found->second.attempted);
            impl_->agents.erase(found);
        }
    }
    impl_->blocks.release(dropped);
    return {};
}

std::vector<agent_summary> agent_cache_store::list() const {
    std::vector<agent_summary> summaries;
    std::lock_guard lock(impl_->mutex);
    for (const auto& [id, agent] : impl_->agents)
        summaries.push_back({id, all_hot(*agent.state) ? "hot" : "warm",
                             static_cast<int>(agent.state->tokens.size()), agent.dirty,
                             agent.manifest_bytes + impl_->blocks.bytes_on_disk(agent.saved),
                             agent.last_used});
    std::sort(summaries.begin(), summaries.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    return summaries;
}

std::vector<agent_id> agent_cache_store::dirty_agents() const {
    std::vector<agent_id> ids;
    std::lock_guard lock(impl_->mutex);
    for (const auto& [id, agent] : impl_->agents)
        if (agent.dirty) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    return ids;
}

const store_probe& agent_cache_store::probe() const noexcept { return impl_->probe; }

}  // namespace semantic::storage

// agent_cache_store: files that give way when the disk is full.

#include "storage/agents/agent_cache_store_impl.hpp"
#include "storage/agents/tier_policy.hpp"

namespace semantic::storage {

/// Blocks. Returns: room for `bytes` more, after removing what had to go. Errors: out_of_space when
/// nothing more may be removed, io.
result<disk_quota::promise> agent_cache_store::impl::make_disk_room(std::uint64_t bytes) {
    std::set<std::string> in_vain;
    std::string what;
    while (true) {
        const auto missing = quota.try_promise(bytes, what);
        if (!missing) return missing.error();
        if (*missing == 0) return disk_quota::promise(quota, bytes);
        if (!remove_one(in_vain)) return failure{errc::out_of_space, what};
    }
}

/// Blocks. Removes what is needed least: a manifest of others, a file that nobody needs, an agent.
/// `in_vain` remembers manifests that could not be removed. Returns: false when there is nothing.
bool agent_cache_store::impl::remove_one(std::set<std::string>& in_vain) {
    const auto now = std::chrono::system_clock::now();
    std::string foreign_path;
    std::optional<agent_id> agent;
    std::string agent_path;
    bool orphans_may_go = true;
    {
        std::lock_guard lock(mutex);
        const auto is_free = [&](const std::string& path) {
            return !busy.contains(path) && !in_vain.contains(path);
        };
        for (const auto& [path, manifest_of] : foreign) {
            if (is_free(path)) foreign_path = path;
            // Of a later format, or never read: nobody here can tell what it needs.
            if (manifest_of.names.empty()) orphans_may_go = false;
        }
        double most = -1;
        for (const auto& [id, each] : agents) {
            if (!foreign_path.empty()) break;
            const double score = dispensability(now - each.last_used, each.state->tokens.size());
            if (score <= most || each.dirty || held.contains(id) || !is_free(path_of(id))) continue;
            most = score;
            agent = id;
        }
        if (agent) agent_path = path_of(*agent);
        if (!foreign_path.empty()) busy.insert(foreign_path);
        if (!agent_path.empty()) busy.insert(agent_path);
    }
    if (!foreign_path.empty()) {
        const turn mine(*this, foreign_path, std::adopt_lock);
        if (!remove_foreign(foreign_path)) in_vain.insert(foreign_path);
        return true;
    }
    const bool unneeded_gone = orphans_may_go && blocks.remove_unneeded() > 0;
    if (!agent) return unneeded_gone;
    const turn mine(*this, agent_path, std::adopt_lock);
    if (!unneeded_gone && !remove_agent(*agent)) in_vain.insert(agent_path);
    return true;
}

/// Requires: the manifest's turn. Returns: whether it is gone.
bool agent_cache_store::impl::remove_foreign(const std::string& relative) {
    if (!unlink_manifest(relative)) return false;
    foreign_manifest taken;
    {
        std::lock_guard lock(mutex);
        taken = take_foreign(relative);
    }
    quota.remove(taken.bytes);
    blocks.release(taken.names);
    ++probe.incompatible_removals;
    return true;
}

/// Requires: the agent's turn. Returns: whether its files are gone, or soon will be.
bool agent_cache_store::impl::remove_agent(const agent_id& id) {
    if (!unlink_manifest(path_of(id))) return false;
    state_ptr former;  // its end may free frames, outside the mutex
    std::vector<block_hash> dropped;
    {
        std::lock_guard lock(mutex);
        record& agent = agents.find(id)->second;
        if (agent.dirty || held.contains(id)) {
            // Somebody took it up meanwhile: its blocks stay, and its manifest is due again.
            quota.remove(std::exchange(agent.manifest_bytes, 0));
            agent.appendable.reset();
            agent.dirty = true;
            ++agent.version;
            return false;
        }
        dropped = take_files(agent);
        former = take_out(id).state;
        if (absent.size() < absent_max) absent[path_of(id)] = shortfall::evicted;
    }
    blocks.release(dropped);
    ++probe.disk_removals;
    return true;
}

/// Blocks. Errors: io; the manifest may then come back with a crash, so nothing that it needs may
/// go.
result<void> agent_cache_store::impl::unlink_manifest(const std::string& relative) {
    auto gone = files.unlink(full_path(relative));
    if (!gone && gone.error().code != errc::not_found) return gone;
    auto synced = files.sync_directory(full_path("agents"));
    // Without the directory nothing can come back.
    if (!synced && synced.error().code == errc::not_found) return {};
    return synced;
}

/// Takes an agent that exists out of the index. Requires: the mutex is held.
agent_cache_store::impl::record agent_cache_store::impl::take_out(const agent_id& id) {
    const auto found = agents.find(id);
    by_text.remove(&found->second.state);
    index_messages(id, found->second.state.get(), nullptr);
    record agent = std::move(found->second);
    agents.erase(found);
    return agent;
}

/// Takes an agent's files off its books, the manifest being gone. Returns: the blocks that it
/// retained. Requires: the mutex is held.
std::vector<block_hash> agent_cache_store::impl::take_files(record& agent) {
    quota.remove(std::exchange(agent.manifest_bytes, 0));
    return concatenated(std::exchange(agent.saved, {}), std::exchange(agent.attempted, {}));
}

/// Forgets what could not be saved; an older version on disk waits for the next opening, or goes
/// with the next removal. Returns: the state, whose end may free frames. Requires: the mutex is
/// held.
state_ptr agent_cache_store::impl::forget_unsaved(const agent_id& id) {
    record agent = take_out(id);
    const std::string relative = path_of(id);
    const std::uint64_t bytes = agent.manifest_bytes;
    auto names = concatenated(std::move(agent.saved), agent.attempted);
    if (!names.empty() || bytes > 0) foreign[relative] = {std::move(names), bytes};
    absent[relative] = shortfall::evicted;
    ++probe.agents_lost;
    return std::move(agent.state);
}

}  // namespace semantic::storage

#include "storage/agents/evictor.hpp"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace semantic::storage {

// --- the pool ---

bool evictor::free_frames(std::size_t frames, const agent_id* keep) {
    agent_index& index = parts_.index;
    const auto now = std::chrono::system_clock::now();
    while (parts_.pool.free_count() < frames) {
        state_ptr former;  // its end frees the frames, behind the lock
        const agent_index::lock locked(index);
        if ((former = index.evict_clean(locked, now, keep))) {
            ++parts_.probe.evictions;
            continue;
        }
        // What the disk did not take cannot wait for ever.
        if ((former = index.evict_passed_of_failed(locked))) continue;
        if (!(former = index.forget_failed(locked, keep)))
            return parts_.pool.free_count() >= frames;
        ++parts_.probe.agents_lost;
    }
    return true;
}

bool evictor::free_frames_for(const agent_id& id, std::size_t frames) {
    return free_frames(frames, &id) || free_frames(frames, nullptr);
}

bool evictor::evict(const agent_id& id) {
    state_ptr former;  // ends behind the lock
    const agent_index::lock locked(parts_.index);
    agent_record* agent = parts_.index.find(locked, id);
    if (agent == nullptr || agent->dirty) return false;
    former = parts_.index.drop_blocks(locked, *agent);
    if (former) ++parts_.probe.evictions;
    return true;
}

// --- the disk ---

result<disk_quota::promise> evictor::free_disk(std::uint64_t bytes) {
    std::set<std::string> in_vain;
    std::string what;
    while (true) {
        const auto missing = parts_.quota.try_promise(bytes, what);
        if (!missing) return missing.error();
        if (*missing == 0) return disk_quota::promise(parts_.quota, bytes);
        if (!remove_one(in_vain)) return failure{errc::out_of_space, what};
    }
}

bool evictor::remove_one(std::set<std::string>& in_vain) {
    const agent_index::removal chosen = parts_.index.choose_removal(
        agent_index::lock(parts_.index), std::chrono::system_clock::now(), in_vain);
    std::optional<manifest_turn> mine;
    if (!chosen.path.empty()) mine.emplace(parts_.index, chosen.path, std::adopt_lock);
    if (!chosen.foreign.empty()) {
        if (!remove_foreign(chosen.foreign)) in_vain.insert(chosen.foreign);
        return true;
    }
    const bool unneeded_gone = chosen.orphans_may_go && parts_.blocks.remove_unneeded() > 0;
    if (!chosen.agent) return unneeded_gone;
    if (!unneeded_gone && !remove_agent(*chosen.agent, chosen.path)) in_vain.insert(chosen.path);
    return true;
}

/// Requires: the manifest's turn. Returns: whether it is gone.
bool evictor::remove_foreign(const std::string& manifest) {
    if (!unlink_manifest(manifest)) return false;
    const foreign_manifest taken =
        parts_.index.take_foreign(agent_index::lock(parts_.index), manifest);
    parts_.quota.remove(taken.bytes);
    parts_.blocks.release(taken.names);
    ++parts_.probe.incompatible_removals;
    return true;
}

/// Requires: the agent's turn. Returns: whether its files are gone, or soon will be.
bool evictor::remove_agent(const agent_id& id, const std::string& manifest) {
    if (!unlink_manifest(manifest)) return false;
    state_ptr former;  // its end may free frames, behind the lock
    std::vector<block_hash> dropped;
    {
        const agent_index::lock locked(parts_.index);
        agent_record& agent = *parts_.index.find(locked, id);
        if (agent.dirty || parts_.index.is_held(locked, id)) {
            // Somebody took it up meanwhile: its blocks stay, and its manifest is due again.
            parts_.quota.remove(std::exchange(agent.manifest_bytes, 0));
            agent.appendable.reset();
            agent.mark_dirty();
            return false;
        }
        dropped = take_files(agent);
        former = parts_.index.take(locked, id).state;
        parts_.index.set_absent(locked, manifest, shortfall::evicted);
    }
    parts_.blocks.release(dropped);
    ++parts_.probe.disk_removals;
    return true;
}

result<void> evictor::erase(const agent_id& id) {
    const std::string relative = parts_.shape.manifest_of(id);
    const manifest_turn mine(parts_.index, relative);
    {
        const agent_index::lock locked(parts_.index);
        if (parts_.index.find(locked, id) == nullptr && !parts_.index.has_foreign(locked, relative))
            return failure{errc::not_found, "no agent " + id.str()};
    }
    if (auto gone = unlink_manifest(relative); !gone) return gone;
    state_ptr former;  // ends behind the lock
    std::vector<block_hash> dropped;
    {
        const agent_index::lock locked(parts_.index);
        foreign_manifest taken = parts_.index.take_foreign(locked, relative);
        dropped = std::move(taken.names);
        parts_.quota.remove(taken.bytes);
        if (parts_.index.find(locked, id) != nullptr) {
            agent_record agent = parts_.index.take(locked, id);
            former = std::move(agent.state);
            dropped = concatenated(std::move(dropped), take_files(agent));
        }
    }
    parts_.blocks.release(dropped);
    return {};
}

/// Errors: io; the manifest may then come back with a crash, so nothing that it needs may go.
result<void> evictor::unlink_manifest(const std::string& relative) {
    auto gone = parts_.files.unlink(parts_.full_path(relative));
    if (!gone && gone.error().code != errc::not_found) return gone;
    auto synced = parts_.files.sync_directory(parts_.full_path("agents"));
    // Without the directory nothing can come back.
    if (!synced && synced.error().code == errc::not_found) return {};
    return synced;
}

/// Takes an agent's files off its books, the manifest being gone. Returns: the blocks that it
/// retained.
std::vector<block_hash> evictor::take_files(agent_record& agent) {
    parts_.quota.remove(std::exchange(agent.manifest_bytes, 0));
    return concatenated(std::exchange(agent.saved, {}), std::exchange(agent.attempted, {}));
}

}  // namespace semantic::storage

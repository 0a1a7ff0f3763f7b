// SPDX-License-Identifier: Apache-2.0
#include "engine/agent_infos.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

/// What the API reports about an agent: the store's summary, with frames turned into bytes.
agent_info info_of(const model_info& loaded, const storage::kv_layout& layout,
                   const storage::agent_summary& agent) {
    const std::uint64_t frame_bytes = layout.frame_bytes();
    agent_info info{agent.id};
    info.hot = agent.tier == storage::memory_tier::hot;
    info.dirty = agent.dirty;
    info.in_use = agent.in_use;
    info.tokens = agent.tokens;
    info.pool_bytes = agent.frames_held * frame_bytes;
    info.pool_bytes_shared = agent.frames_shared * frame_bytes;
    info.disk_bytes = agent.disk_bytes;
    info.created = agent.created;
    info.last_used = agent.last_used;
    info.state_places = agent.state_places;
    info.state_pool_bytes = agent.states_held * layout.state_frames() * frame_bytes;
    info.state_disk_bytes = agent.state_disk_bytes;
    info.policy = agent.policy;
    info.claim = agent.claim;
    info.bytes_written = agent.bytes_written;
    info.bytes_of_turn = agent.bytes_of_turn;
    info.is_over_bound = agent.is_over_bound;
    info.memories.push_back({loaded.id, loaded.fingerprint, true, info.hot, agent.tokens,
                             info.pool_bytes, agent.disk_bytes, agent.last_used});
    return info;
}

/// An agent that the loaded model does not remember.
agent_info info_of(const storage::other_memory& memory) {
    agent_info info{memory.id};
    info.is_remembered = false;
    info.in_use = memory.in_use;
    info.created = memory.created;
    info.last_used = memory.last_used;
    return info;
}

}  // namespace

std::vector<agent_info> agent_infos(const model_info& loaded, const storage::kv_layout& layout,
                                    const std::vector<storage::agent_summary>& own,
                                    const std::vector<storage::other_memory>& others) {
    std::vector<agent_info> infos;
    auto next = own.begin();
    // Adds the loaded model's memories up to that of `id` itself; null: all that are left.
    const auto add_own_before = [&](const storage::agent_id* id) {
        for (; next != own.end() && (id == nullptr || next->id <= *id); ++next)
            infos.push_back(info_of(loaded, layout, *next));
    };
    for (const storage::other_memory& each : others) {
        add_own_before(&each.id);
        if (infos.empty() || infos.back().id != each.id) infos.push_back(info_of(each));
        agent_info& info = infos.back();
        info.created = std::min(info.created, each.created);
        info.last_used = std::max(info.last_used, each.last_used);
        info.memories.push_back({each.model_name, each.fingerprint, each.is_open,
                                 each.tier == storage::memory_tier::hot, each.tokens,
                                 each.pool_bytes, each.disk_bytes, each.last_used});
    }
    add_own_before(nullptr);
    return infos;
}

memory_usage usage_info(const model_info& loaded, std::uint64_t frame_bytes,
                        const storage::tenant_usage& usage) {
    memory_usage info{usage.frames_held * frame_bytes, usage.disk_bytes};
    for (const auto& [fingerprint, model] : usage.models)
        info.models.push_back({model.model_name, fingerprint, fingerprint == loaded.fingerprint,
                               model.memories, model.tokens, model.disk_bytes});
    return info;
}

}  // namespace semantic::engine

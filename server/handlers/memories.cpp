// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/memories.hpp"

#include "protocol/agents/agents.hpp"

namespace semantic::server {

std::vector<storage::block_hash> models_meant(const engine::agent_info& agent,
                                              std::string_view wanted) {
    std::vector<storage::block_hash> found;
    for (const engine::memory_info& each : agent.memories)
        if (protocol::agents::means_model(wanted, each.model_id, each.fingerprint.hex()))
            found.push_back(each.fingerprint);
    return found;
}

storage::result<void> forget(engine::engine& engine, const engine::agent_info& agent,
                             const std::optional<std::string>& model) {
    if (!model) return engine.erase(agent.id);
    for (const storage::block_hash& each : models_meant(agent, *model))
        if (auto erased = engine.erase_memory(agent.id, each); !erased) return erased;
    return {};
}

}  // namespace semantic::server

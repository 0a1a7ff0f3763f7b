// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the list of agents for clients: each agent once, with its memory under every model. Pure.

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// `own`: the loaded model's memories; `others`: those of other models; both in order of the
/// agents' ids. Returns: the agents in that order, each with the loaded model's memory first.
std::vector<agent_info> agent_infos(const model_info& loaded, const storage::kv_layout& layout,
                                    const std::vector<storage::agent_summary>& own,
                                    const std::vector<storage::other_memory>& others);

/// What a tenant's agents take, in bytes and per model. `frame_bytes`: of one pool frame.
memory_usage usage_info(const model_info& loaded, std::uint64_t frame_bytes,
                        const storage::tenant_usage& usage);

}  // namespace semantic::engine

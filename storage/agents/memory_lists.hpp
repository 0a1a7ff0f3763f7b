// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a store says of its agents, of those of other models, and of what a tenant has. Thread: safe
// from any; waits for the index's lock, never for the disk.

#include <vector>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/agents/store_parts.hpp"

namespace semantic::storage {

/// Returns: one agent's summary. Requires: weigh_disk_claims() was called under this lock, where
/// the agent has a policy.
agent_summary summary_of(const store_parts& parts, const agent_index::lock& locked,
                         const agent_id& id, const agent_record& agent);
/// Returns: the agents that the loaded model remembers, in order of their ids. `tenant`: whose;
/// null: everybody's.
std::vector<agent_summary> summaries_of(store_parts& parts, const tenant_id* tenant);
/// Returns: what other models remember, in order of the agents' ids. `tenant`: whose; null:
/// everybody's.
std::vector<other_memory> other_memories_of(const store_parts& parts, const tenant_id* tenant);
/// Returns: what other models remember of the agent.
std::vector<other_memory> other_memories_of(const store_parts& parts, const agent_id& id);
/// Returns: what the tenant's agents take of the pool and the disk.
tenant_usage usage_of(const store_parts& parts, const tenant_id& tenant);

}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Claims agents for this node among the nodes that share an object store: a lease in Redis says
// which node works on an agent. Without leases (one node) every claim succeeds. Owner: the
// scheduler. Thread: any.

#include <optional>

#include "engine/types/generation.hpp"
#include "engine/types/held_elsewhere.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/objects/redis/agent_leases.hpp"

namespace semantic::engine {

class agent_claims {
  public:
    /// `leases`: null for none; outlives the object, as `store` does.
    agent_claims(const storage::agent_cache_store& store, storage::agent_leases* leases,
                 held_elsewhere when_held)
        : store_(store), leases_(leases), when_held_(when_held) {}

    /// Takes the agent's lease for a request that extends the agent. Blocks until Redis has
    /// answered. Fills `lease` if this node has the agent now; the agent stays this node's while a
    /// copy of `lease` lives. Returns: the error for the request's client if another node works on
    /// the agent and the options do not say `serve`; otherwise nothing, and the request continues.
    std::optional<failed> claim(const storage::agent_id& agent,
                                storage::agent_leases::lease& lease) const;
    /// Returns, without blocking, one more copy of the lease that this node has on the agent, for
    /// work that outlives the request, such as an upload; null if this node has none.
    storage::agent_leases::lease share(const storage::agent_id& agent) const;

  private:
    const storage::agent_cache_store& store_;
    storage::agent_leases* const leases_;
    const held_elsewhere when_held_;  // what a request gets if another node works on its agent
};

}  // namespace semantic::engine

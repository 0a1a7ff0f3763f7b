// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether this node or another one that shares an object store is at work on an agent, and what
// becomes of a request for one that is another's. Without leases every agent is this node's.
// Owner: the scheduler. Thread: any.

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

    /// Blocks while Redis is asked. Fills `lease` where the agent is this node's now. Returns: why
    /// the request is refused; nothing where it goes on.
    std::optional<failed> claim(const storage::agent_id& agent,
                                storage::agent_leases::lease& lease) const;
    /// Returns at once: what goes on holding the agent; null where this node does not.
    storage::agent_leases::lease share(const storage::agent_id& agent) const;

  private:
    const storage::agent_cache_store& store_;
    storage::agent_leases* const leases_;
    const held_elsewhere when_held_;
};

}  // namespace semantic::engine

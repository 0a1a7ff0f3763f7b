// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fetches what other nodes have added to the agent that a request names, from the object store that
// they share, before the request is resolved. For an agent that does not exist yet it fetches the
// parent that the request names. Owner: the scheduler. Thread: any; the work runs on the agent's
// strand.

#include <atomic>
#include <functional>
#include <string>

#include "engine/scheduler/agent_claims.hpp"
#include "engine/scheduler/queue/job.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::storage {
class shared_agents;
}

namespace semantic::engine {

/// What a refresh asks of the scheduler, and where its requests go.
class refresh_outputs {
  public:
    /// Runs the work on the agent's strand. Returns: false where too much is waiting.
    virtual bool post(const storage::agent_id& agent, std::function<void()> work) = 0;
    /// Whether a request that was submitted before `later` names the agent and has not ended: this
    /// node's memory of the agent is then the newest one.
    virtual bool is_extended(const storage::agent_id& agent, const job& later) = 0;
    /// Sends the request to the resolve node.
    virtual void arrive(const job_ptr& work) = 0;
    virtual void refuse(const job_ptr& work, failed why) = 0;
    virtual void warn(std::string text) const = 0;

  protected:
    ~refresh_outputs() = default;
};

class agent_refresh {
  public:
    /// `shared`: null where requests arrive as they come.
    agent_refresh(const storage::agent_cache_store& store, storage::shared_agents* shared,
                  const agent_claims& claims, refresh_outputs& outputs)
        : store_(store), shared_(shared), claims_(claims), outputs_(outputs) {}

    /// Returns at once. Calls refresh_outputs::arrive() when the agent is fetched; at once if there
    /// is nothing to fetch. If the object store does not answer, the request continues from the
    /// memory on this machine, unless it is an `append`, which has only the new messages and would
    /// follow the wrong ones: then it is refused with a time to retry. It is also refused if
    /// another node is extending the agent.
    void begin(const job_ptr& work);

  private:
    /// Fetches `agent`, which is the request's agent or its parent, on the strand of `agent`.
    void refresh(const job_ptr& work, const storage::agent_id& agent);

    const storage::agent_cache_store& store_;
    storage::shared_agents* const shared_;
    const agent_claims& claims_;
    refresh_outputs& outputs_;
    // Whether the object store answered the last refresh: only the first failure in a row warns.
    std::atomic<bool> has_answered_{true};
};

}  // namespace semantic::engine

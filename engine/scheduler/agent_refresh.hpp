// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings the agent that a request names, and for a new one its parent, to what an object store has,
// on the agent's strand and before the request is resolved. Owner: the scheduler. Thread: any.

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
    /// Whether a request earlier than `later` extends the agent, or is about to.
    virtual bool is_extended(const storage::agent_id& agent, const job& later) = 0;
    /// The request goes on.
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

    /// Returns at once. The request arrives then, or later. Without an answer of the object store
    /// it goes on from the memory on this machine, unless its client relies on the agent's memory
    /// for the earlier turns: that request is refused with a time to retry, as is one whose agent
    /// another node is extending.
    void begin(const job_ptr& work);

  private:
    void refresh(const job_ptr& work, const storage::agent_id& agent);

    const storage::agent_cache_store& store_;
    storage::shared_agents* const shared_;
    const agent_claims& claims_;
    refresh_outputs& outputs_;
    std::atomic<bool> has_answered_{true};  // the object store did at the last refresh
};

}  // namespace semantic::engine

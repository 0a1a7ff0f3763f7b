#pragma once
// Brings the agent that a request names, and for a new one its parent, to what an object store has,
// on the agent's strand and before the request is resolved. Owner: the scheduler. Thread: any.

#include <atomic>
#include <functional>

#include "engine/scheduler/agent_claims.hpp"
#include "engine/scheduler/queue/job.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::storage {
class shared_agents;
}

namespace semantic::engine {

class agent_refresh {
  public:
    struct services {
        const storage::agent_cache_store& store;
        storage::shared_agents* shared;  // null: requests arrive as they come
        const agent_claims& claims;
        /// Runs a job on the agent's strand. Returns: false where too many are waiting.
        std::function<bool(const storage::agent_id&, std::function<void()>)> post;
        /// Whether an earlier request than the job extends the agent, or is about to.
        std::function<bool(const storage::agent_id&, const job&)> is_extended;
        std::function<void(const job_ptr&)> arrive;
        std::function<void(const job_ptr&, failed)> refuse;
        std::function<void(std::string)> warn;
    };
    explicit agent_refresh(services given) : services_(std::move(given)) {}

    /// Returns at once. The request arrives then, or later; without an answer of the object store
    /// it goes on from what is here, unless its client relies on the agent's memory for what was
    /// said before: that one is refused, and told when to come back, as is one whose agent another
    /// node is at work on.
    void begin(const job_ptr& work);

  private:
    void refresh(const job_ptr& work, const storage::agent_id& agent);

    const services services_;
    std::atomic<bool> has_answered_{true};  // the object store did at the last refresh
};

}  // namespace semantic::engine

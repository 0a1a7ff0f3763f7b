// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a step's results go, and what a step asks of the scheduler.

#include "engine/scheduler/queue/job.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// A request that is over, and its last event.
struct ended_request {
    job_ptr work;
    generation_event last;    // finished or failed
    bool remembered = false;  // its memory is in the store, as far as computed, and not saved yet
};

/// Owner: the scheduler, which outlives its batch. Thread: methods are called by the step node
/// only, but for are_requests_arriving(), which a thread of the compute arena asks. None waits.
class batch_outputs {
  public:
    /// Sends an event to the request's client.
    virtual void emit_event(const job_ptr& work, generation_event event) = 0;
    /// Hands over a request that is over: its memory is saved, then its client gets the end.
    virtual void commit_end(ended_request ended) = 0;
    /// Queues a save of the agent's memory that was just published.
    virtual void save_agent(const storage::agent_id& agent, storage::save_extent extent) = 0;
    /// Whether a save or a look-up holds blocks that no sequence runs on. When that changes,
    /// run_step() is called again.
    virtual bool are_blocks_held() const = 0;
    /// Reads the blocks of the request's prefix: may hand the job to arriving() meanwhile, ends
    /// with restored().
    virtual void restore_prefix(const job_ptr& work) = 0;
    /// Whether requests are on their way to the batch, and so wait for this step to end. Asked
    /// while a step waits for the disk.
    virtual bool are_requests_arriving() const = 0;
    /// Notifies the client that its request cannot begin yet. `place`: requests before it, and the
    /// estimated wait; 0: estimated from their number. Called at most once a request.
    virtual void announce_wait(const job_ptr& work, queued place) = 0;

  protected:
    ~batch_outputs() = default;
};

}  // namespace semantic::engine

#pragma once
// Where a step's results go. Called by the step node only; none waits.

#include <functional>

#include "engine/scheduler/queue/job.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// A request that is over, and its last event.
struct ended_request {
    job_ptr work;
    generation_event last;    // finished or failed
    bool remembered = false;  // its memory is published, as far as it got, and not saved yet
};

struct batch_outputs {
    std::function<void(const job_ptr&, generation_event)> emit;
    std::function<void(ended_request)> commit;
    /// Saves what was just published, behind the work.
    std::function<void(const storage::agent_id&, storage::save_extent)> save;
    /// Whether a save or a look-up holds blocks that no sequence runs on. When that changes,
    /// run_step() is called again.
    std::function<bool()> transient_holds;
    /// Reads the prefix's blocks: may hand the job to arriving() meanwhile, ends with restored().
    std::function<void(const job_ptr&)> restore;
    /// Whether requests are on their way to the batch, and so wait for this step to end. Asked
    /// while a step waits for the disk.
    std::function<bool()> inbound;
    /// The request cannot begin yet. An estimate of 0: until those before it have ended. Called
    /// once a request, and not where its client was told before.
    std::function<void(const job_ptr&, queued)> tell_wait;
};

}  // namespace semantic::engine

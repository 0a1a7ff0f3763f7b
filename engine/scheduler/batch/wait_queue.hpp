#pragma once
// Resolved requests in order of arrival, until each has a place in the batch. While they wait they
// hold the blocks that they will start from. Owner: batch. Thread: confined to the step node.

#include <cstddef>
#include <deque>
#include <vector>

#include "engine/scheduler/batch/job.hpp"
#include "engine/types/probe.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

class wait_queue {
  public:
    wait_queue(const storage::agent_cache_store& store, engine_probe& probe)
        : store_(store), probe_(probe) {}

    void push(job_ptr work);
    bool empty() const { return waiting_.empty(); }
    std::size_t size() const { return waiting_.size(); }
    const job_ptr& front() const { return waiting_.front(); }
    void pop_front();

    struct stopped {
        job_ptr work;
        stop_reason why;
    };
    /// Takes out requests that were cancelled or ran out of time; their blocks are released.
    std::vector<stopped> take_stopped();

    /// Requests from the `from`-th on release the blocks that are in files, which stay until the
    /// request reads them. Returns: whether any had such.
    bool release_saved_blocks(std::size_t from);
    /// Requests from the `from`-th on release all their blocks; what is in no file is computed
    /// again. Returns: whether any had some.
    bool release_blocks(std::size_t from);

  private:
    template <typename Released>
    bool release(std::size_t from, Released released);

    const storage::agent_cache_store& store_;
    engine_probe& probe_;
    std::deque<job_ptr> waiting_;
};

}  // namespace semantic::engine

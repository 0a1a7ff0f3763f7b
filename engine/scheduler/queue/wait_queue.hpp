// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resolved requests until each has a slot in the batch. Tenants take turns; a tenant's requests
// begin in order of arrival. While they wait they hold the blocks that they will start from.
// Owner: batch. Thread: confined to the step node.

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "engine/scheduler/queue/job.hpp"
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
    /// In order of arrival.
    const std::deque<job_ptr>& jobs() const { return waiting_; }

    /// The request that begins next; one that does not fit yet stays the next one. `may_begin`:
    /// those that it refuses are passed over. Returns: null where none may.
    job_ptr find_next(const std::function<bool(const job&)>& may_begin) const;
    /// The request begins, and the other tenants come before its tenant's next one. Requires: it
    /// waits.
    void take(const job_ptr& work);

    /// Takes out requests that were cancelled; their blocks are released. A deadline counts from
    /// where a request begins.
    std::vector<job_ptr> take_cancelled();
    /// The number of requests that begin before this one, as far as is known now: a tenant's
    /// request comes after the earlier ones of its tenant, and as many of each other tenant.
    /// Requires: it waits.
    int count_before(const job& work) const;

    /// Requests but `spared`, which may be null, release the blocks that are in files, which stay
    /// until the request reads them. Returns: whether any had such.
    bool release_saved_blocks(const job* spared);
    /// Requests but `spared` release all their blocks; what is in no file is computed again.
    /// Returns: whether any had some.
    bool release_blocks(const job* spared);

  private:
    template <typename Released>
    bool release(const job* spared, Released released);
    void forget_idle_tenants();

    const storage::agent_cache_store& store_;
    engine_probe& probe_;
    std::deque<job_ptr> waiting_;             // in order of arrival
    std::deque<storage::tenant_id> tenants_;  // that wait; the first one's request is the next
};

}  // namespace semantic::engine

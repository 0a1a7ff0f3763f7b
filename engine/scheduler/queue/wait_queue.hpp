// SPDX-License-Identifier: Apache-2.0
#pragma once
// The queue of resolved requests that wait for a slot in the batch. Tenants take turns; a tenant's
// requests begin in order of arrival. A waiting request holds the pool blocks that it will start
// from, unless they are taken from it. Owner: batch. Thread: confined to the step node.

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

    /// Returns: the request that begins next, which stays in the queue; null if none may begin.
    /// Requests for which `may_begin` is false are skipped.
    job_ptr find_next(const std::function<bool(const job&)>& may_begin) const;
    /// Removes a request because it begins; its tenant goes to the end of the order of tenants.
    /// Requires: the request is in the queue.
    void take(const job_ptr& work);

    /// Removes and returns the cancelled requests, and releases their blocks. Deadlines are not
    /// looked at: they count from where a request begins.
    std::vector<job_ptr> take_cancelled();
    /// Returns: how many of the waiting requests begin before this one: the earlier ones of its
    /// tenant, and, because tenants take turns, about as many of each other tenant. Requires: the
    /// request is in the queue.
    int count_before(const job& work) const;

    /// Releases those blocks of waiting requests that are on disk, too; the requests read them from
    /// there when they begin. `spared` (may be null) keeps its blocks. Returns: whether any block
    /// was released.
    bool release_saved_blocks(const job* spared);
    /// Releases all blocks of waiting requests but `spared`; those that are not on disk are
    /// computed again. Returns: whether any block was released.
    bool release_blocks(const job* spared);

  private:
    /// Replaces the source of each waiting request but `spared` by `without_some(source)`, which
    /// has fewer blocks; null says that the source has none to spare. Returns: whether any was
    /// replaced.
    template <typename WithoutSome>
    bool release(const job* spared, WithoutSome without_some);
    /// Removes tenants that have no waiting request from the order of tenants.
    void forget_idle_tenants();

    const storage::agent_cache_store& store_;
    engine_probe& probe_;
    std::deque<job_ptr> waiting_;             // in order of arrival
    std::deque<storage::tenant_id> tenants_;  // with waiting requests; the first one is next
};

}  // namespace semantic::engine

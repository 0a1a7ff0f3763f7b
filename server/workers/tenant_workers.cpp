// SPDX-License-Identifier: Apache-2.0
#include "server/workers/tenant_workers.hpp"

#include <sys/resource.h>

namespace semantic::server {

tenant_workers::tenant_workers(std::size_t thread_count, std::size_t tenant_max, int niceness)
    : tenant_max_(tenant_max), niceness_(niceness) {
    threads_.reserve(thread_count);
    try {
        while (threads_.size() < thread_count) threads_.emplace_back([this] { serve(); });
    } catch (...) {
        end_threads();
        throw;
    }
}

tenant_workers::~tenant_workers() { end_threads(); }

void tenant_workers::end_threads() {
    {
        std::lock_guard lock(mutex_);
        ends_now_ = true;
        has_work_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

void tenant_workers::join() {
    {
        std::lock_guard lock(mutex_);
        ends_when_idle_ = true;
        has_work_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

/// Queues the tenant for a thread, unless it is queued, has no job, or has all the threads it may
/// have. Requires: the mutex is held.
void tenant_workers::offer(queues::iterator one) {
    queue& own = one->second;
    if (own.is_in_turn || own.jobs.empty() || own.running >= tenant_max_) return;
    own.is_in_turn = true;
    turns_.push_back(one);
    has_work_.notify_one();
}

void tenant_workers::post(const std::string& tenant, job work) {
    std::lock_guard lock(mutex_);
    const auto one = queues_.try_emplace(tenant).first;
    one->second.jobs.push_back(std::move(work));
    offer(one);
}

void tenant_workers::serve() {
    if (niceness_ != 0) setpriority(PRIO_PROCESS, 0, niceness_);  // of this thread alone
    std::unique_lock lock(mutex_);
    for (;;) {
        has_work_.wait(lock, [this] {
            return ends_now_ || !turns_.empty() || (ends_when_idle_ && queues_.empty());
        });
        if (ends_now_ || turns_.empty()) return;
        const queues::iterator one = turns_.front();
        turns_.pop_front();
        queue& own = one->second;
        own.is_in_turn = false;
        job work = std::move(own.jobs.front());
        own.jobs.pop_front();
        ++own.running;
        offer(one);
        lock.unlock();
        work();
        work = nullptr;  // what it holds ends here, and not with the lock
        lock.lock();
        --own.running;
        offer(one);
        if (own.jobs.empty() && own.running == 0) queues_.erase(one);
        if (ends_when_idle_ && queues_.empty()) has_work_.notify_all();
    }
}

}  // namespace semantic::server

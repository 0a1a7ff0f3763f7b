// SPDX-License-Identifier: Apache-2.0
#pragma once
// Independent pieces of file work on a few threads at once: a disk answers several reads faster
// than one after the other, and checksums take a core each. Owner: agent_cache_store.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace semantic::storage {

/// Helping threads that are started when they are first needed and then wait for work. Thread: any.
class file_workers {
  public:
    /// For file work: as many threads as cores, but two to four.
    file_workers();
    /// `threads`: how many jobs of one run() are under way at once; for jobs that wait for the
    /// network.
    explicit file_workers(std::size_t threads) : threads_max_(threads) {}
    /// Requires: no run() is under way.
    ~file_workers();
    file_workers(const file_workers&) = delete;
    file_workers& operator=(const file_workers&) = delete;

    /// Blocks. Calls `job(i)` once for every i below `count`, on at most threads_max threads
    /// including the caller's, in no particular order, and returns when every job has ended. It
    /// does not wait for helpers that find no job left: on a busy machine the caller does all of
    /// it. A job must not throw.
    void run(std::size_t count, const std::function<void(std::size_t)>& job);

  private:
    struct batch {
        const std::function<void(std::size_t)>& job;
        std::size_t count = 0;
        std::size_t next = 0;  // the first that nobody has taken
        std::size_t done = 0;
    };
    void start(std::size_t helpers);
    void help();
    void work_on(batch& mine, std::unique_lock<std::mutex>& lock);

    const std::size_t threads_max_;
    std::mutex mutex_;  // guards everything below
    std::condition_variable came_, done_;
    std::deque<batch*> open_;  // that have jobs nobody has taken
    bool ending_ = false;
    std::vector<std::jthread> helpers_;
};

}  // namespace semantic::storage

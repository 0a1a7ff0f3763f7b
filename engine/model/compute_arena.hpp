// SPDX-License-Identifier: Apache-2.0
#pragma once
// The threads for compute: every kernel and every node of the flow graph runs in one arena of a
// fixed number of threads. Thread: any; run() blocks its caller, which becomes one of the threads.

#include <functional>
#include <memory>

namespace semantic::engine {

class compute_arena {
  public:
    /// `threads`: 0 means one for every core.
    explicit compute_arena(int threads);
    ~compute_arena();

    /// Runs `body` inside the arena and returns when it is done.
    void run(const std::function<void()>& body);
    /// Runs both, in parallel if two threads are free. Returns when both are done.
    void run_both(const std::function<void()>& one, const std::function<void()>& other);
    /// Queues `body` after all that are queued already, and returns.
    void run_later(std::function<void()> body);
    int threads() const noexcept;

  private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine

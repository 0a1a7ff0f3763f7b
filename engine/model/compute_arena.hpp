// SPDX-License-Identifier: Apache-2.0
#pragma once
// The threads that a program lends to compute: every kernel and flow-graph node runs in one arena.
// Thread: run() blocks its caller, which becomes one of the threads.

#include <functional>
#include <memory>

namespace semantic::engine {

class compute_arena {
  public:
    /// `threads`: 0 means one for every core.
    explicit compute_arena(int threads);
    ~compute_arena();

    void run(const std::function<void()>& body);
    /// Side by side where two threads are free. Returns when both are done.
    void run_both(const std::function<void()>& one, const std::function<void()>& other);
    /// Queues `body` after all bodies that are queued already. Does not wait.
    void run_later(std::function<void()> body);
    int threads() const noexcept;

  private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine

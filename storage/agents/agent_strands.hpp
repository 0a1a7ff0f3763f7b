// SPDX-License-Identifier: Apache-2.0
#pragma once
// Blocking storage work, in order per agent, in parallel between agents: the only way in for
// writers. Owner: engine. Thread: post() and pending() are safe from any thread and never wait;
// drain() and the destructor wait, so they must not be called from a job.

#include <cstddef>
#include <functional>
#include <memory>

#include "storage/types/ids.hpp"

namespace semantic::storage {

class agent_strands {
  public:
    /// Starts `thread_count` threads. At most `pending_max` jobs wait or run at any time. Throws
    /// std::system_error where a thread is refused.
    agent_strands(std::size_t thread_count, std::size_t pending_max);
    /// Waits for every job.
    ~agent_strands();
    agent_strands(const agent_strands&) = delete;
    agent_strands& operator=(const agent_strands&) = delete;

    /// Runs `job` after every earlier job of the same agent has ended. A job must not throw.
    /// Returns: false, and does nothing, when `pending_max` jobs are pending; the caller decides
    /// what to give up.
    [[nodiscard]] bool post(const agent_id& agent, std::function<void()> job);

    /// Jobs that wait or run, of all agents.
    std::size_t pending() const;
    /// Blocks until nothing is pending.
    void drain();

  private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every coroutine that the server spawns: counted, cancellable, waited for. Nothing runs detached.
// Owner: app. Thread: every method may be called from any thread. Outlives the io_context's run().

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace semantic::server {

class task_group {
  public:
    task_group() = default;
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;

    /// Runs `task` on `executor`. An exception that leaves it is logged as "NAME failed: ...",
    /// except the one by which a cancelled coroutine ends. `on_end` (may be empty) runs on
    /// `executor` afterwards.
    void spawn(boost::asio::any_io_executor executor, boost::asio::awaitable<void> task,
               std::string name, std::function<void()> on_end = {});

    /// Cancels every task: its present co_await fails with operation_aborted.
    void cancel();
    std::size_t count() const;
    /// Returns: whether the group became empty before `until`.
    boost::asio::awaitable<bool> wait(std::chrono::steady_clock::time_point until);

  private:
    struct entry;
    mutable std::mutex mutex_;
    std::list<std::shared_ptr<entry>> running_;
};

}  // namespace semantic::server

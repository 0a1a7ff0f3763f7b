// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads that serve one executor. Replaces boost::asio::thread_pool, whose constructor waits for
// ever for the threads that it has made when the system refuses another one. Thread: get_executor()
// may be posted to from any thread; the rest is for the owner.

#include <boost/asio/thread_pool.hpp>

#include <cstddef>
#include <thread>
#include <vector>

namespace semantic::storage {

class worker_pool {
  public:
    /// Throws std::system_error where a thread is refused; none is left then.
    explicit worker_pool(std::size_t thread_count);
    /// Waits for work that is running; work that has not begun is dropped.
    ~worker_pool();
    worker_pool(const worker_pool&) = delete;
    worker_pool& operator=(const worker_pool&) = delete;

    boost::asio::thread_pool::executor_type get_executor() noexcept { return pool_.get_executor(); }
    /// Blocks until everything that was posted has run, and ends the threads.
    void join();

  private:
    void join_threads();

    boost::asio::thread_pool pool_{std::size_t{0}};  // its threads are ours
    std::vector<std::thread> threads_;
};

}  // namespace semantic::storage

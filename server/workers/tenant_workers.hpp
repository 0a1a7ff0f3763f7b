// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that would hold up the connections, fair between tenants: each has a queue of
// its own, the queues are served in turn, and no tenant has more threads at once than it may. So
// whatever one of them asks for, another one's job begins when one thread is done with one job at
// the latest, and while a thread is reserved, at once.
// Owner: app. Thread: get_executor() from any thread; the rest is for the owner.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace semantic::server {

class tenant_workers {
  public:
    /// `tenant_max`: threads of one tenant at once, 1 to `thread_count`. `niceness`: of the
    /// threads, so that long work leaves the processor to answers that are being made. Throws
    /// std::system_error where a thread is refused; none is left then.
    tenant_workers(std::size_t thread_count, std::size_t tenant_max, int niceness = 0);
    /// Waits for what runs; what has not begun is dropped.
    ~tenant_workers();
    tenant_workers(const tenant_workers&) = delete;
    tenant_workers& operator=(const tenant_workers&) = delete;

    /// One tenant's queue as an executor of Asio.
    class executor {
      public:
        boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
            return workers_->context_;
        }
        static constexpr boost::asio::execution::blocking_t query(
            boost::asio::execution::blocking_t) noexcept {
            return boost::asio::execution::blocking_t::never;
        }
        template <class Function>
        void execute(Function work) const {
            // Asio's functions can be moved but not copied, as std::function wants.
            auto held = std::make_shared<Function>(std::move(work));
            workers_->post(*tenant_, [held] { std::move (*held)(); });
        }
        bool operator==(const executor&) const noexcept = default;

      private:
        friend tenant_workers;
        executor(tenant_workers& workers, std::string tenant)
            : workers_(&workers), tenant_(std::make_shared<const std::string>(std::move(tenant))) {}
        tenant_workers* workers_;
        std::shared_ptr<const std::string> tenant_;
    };

    boost::asio::any_io_executor get_executor(std::string tenant) {
        return executor(*this, std::move(tenant));
    }
    /// Blocks until everything that was posted has run, and ends the threads.
    void join();

  private:
    using job = std::function<void()>;
    struct queue {
        std::deque<job> jobs;
        // Its jobs that run now, at most tenant_max_.
        std::size_t running = 0;
        bool is_in_turn = false;  // in turns_: has a job, and may have a thread
    };
    using queues = std::map<std::string, queue>;

    /// Adds a job to the tenant's queue.
    void post(const std::string& tenant, job work);
    /// A thread: runs jobs of the tenants in turn until the end.
    void serve();
    void offer(queues::iterator one);
    /// Ends the threads after their present jobs.
    void end_threads();

    boost::asio::execution_context context_;  // for Asio's bookkeeping alone
    const std::size_t tenant_max_;
    const int niceness_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable has_work_;
    queues queues_;                      // of tenants that have work here
    std::list<queues::iterator> turns_;  // the tenants to serve, the next one first
    // join() waits for all jobs; `ends_now_`: the object ends, and jobs that wait are dropped.
    bool ends_when_idle_ = false;
    bool ends_now_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace semantic::server

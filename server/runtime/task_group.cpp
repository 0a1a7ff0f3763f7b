// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/task_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>

#include <exception>

#include "server/runtime/logging.hpp"
#include "server/runtime/tokens.hpp"

namespace semantic::server {

struct task_group::entry {
    net::any_io_executor executor;
    net::cancellation_signal signal;
};

namespace {

/// Logs an exception that left a task, except that of a cancelled one.
void log_escape(const std::string& name, std::exception_ptr escaped) {
    if (!escaped) return;
    try {
        std::rethrow_exception(escaped);
    } catch (const boost::system::system_error& error) {
        if (error.code() != net::error::operation_aborted)
            log_event(log_level::error, name + " failed: " + error.what());
    } catch (const std::exception& error) {
        log_event(log_level::error, name + " failed: " + error.what());
    } catch (...) {
        log_event(log_level::error, name + " failed with something that is no std::exception");
    }
}

}  // namespace

void task_group::spawn(net::any_io_executor executor, net::awaitable<void> task, std::string name,
                       std::function<void()> on_end) {
    auto self = std::make_shared<entry>();
    self->executor = executor;
    std::list<std::shared_ptr<entry>>::iterator place;
    {
        std::lock_guard lock(mutex_);
        place = running_.insert(running_.end(), self);
    }
    auto ended = [this, place, self, name = std::move(name),
                  on_end = std::move(on_end)](std::exception_ptr escaped) {
        log_escape(name, escaped);
        {
            std::lock_guard lock(mutex_);
            running_.erase(place);
        }
        if (on_end) on_end();
    };
    // Bound to the task's executor, so that its signal is never emitted while the entry is being
    // removed.
    net::co_spawn(executor, std::move(task),
                  net::bind_cancellation_slot(self->signal.slot(),
                                              net::bind_executor(executor, std::move(ended))));
}

void task_group::cancel() {
    std::list<std::shared_ptr<entry>> all;
    {
        std::lock_guard lock(mutex_);
        all = running_;
    }
    for (const auto& one : all)
        net::post(one->executor, [one] { one->signal.emit(net::cancellation_type::terminal); });
}

std::size_t task_group::count() const {
    std::lock_guard lock(mutex_);
    return running_.size();
}

net::awaitable<bool> task_group::wait(std::chrono::steady_clock::time_point until) {
    // Polling is cheap enough, since this only runs at the stop; tasks then need no reference to
    // who waits.
    constexpr std::chrono::milliseconds poll{10};
    net::steady_timer timer(co_await net::this_coro::executor);
    while (count() > 0) {
        if (std::chrono::steady_clock::now() >= until) co_return false;
        timer.expires_after(poll);
        auto [error] = co_await timer.async_wait(use_tuple);
        if (error) co_return false;
    }
    co_return true;
}

}  // namespace semantic::server

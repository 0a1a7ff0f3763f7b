// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs work for a coroutine on other threads, because it would hold up the other connections.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "server/runtime/tokens.hpp"

namespace semantic::server {

/// Thrown in place of work whose client has left before its turn came.
class work_abandoned : public std::exception {
  public:
    const char* what() const noexcept override { return "the client has left"; }
};

/// Set when the client of some work has left; null: that is not known.
using client_gone = std::shared_ptr<const std::atomic<bool>>;

/// Runs `work()` on `workers` and returns its value. The coroutine stays on its executor, and waits
/// for the work even when it is cancelled, so that `work` may refer to its frame. Requires: `work`
/// returns a value. Throws what `work` throws; work_abandoned where the client is `gone` before the
/// work begins.
template <class Work>
net::awaitable<std::invoke_result_t<Work&>> run_on(net::any_io_executor workers, Work work,
                                                   client_gone gone = nullptr) {
    std::optional<std::invoke_result_t<Work&>> value;
    std::exception_ptr failure;
    auto start = [&](auto resume) {
        auto job = [&value, &failure, &work, &gone, resume = std::move(resume)]() mutable {
            try {
                if (gone && gone->load()) throw work_abandoned();
                value.emplace(work());
            } catch (...) {
                failure = std::current_exception();
            }
            auto home = net::get_associated_executor(resume);
            net::post(home, std::move(resume));
        };
        net::post(workers, std::move(job));
    };
    co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(start, net::use_awaitable);
    if (failure) std::rethrow_exception(failure);
    co_return std::move(*value);
}

}  // namespace semantic::server

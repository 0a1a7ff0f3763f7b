// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/byte_pipe.hpp"

#include <boost/asio/post.hpp>

#include <utility>

#include "server/runtime/tokens.hpp"

namespace semantic::server {

byte_pipe::byte_pipe(net::any_io_executor strand) : strand_(strand), timer_(strand) {}

bool byte_pipe::push(std::string piece) {
    if (piece.empty()) return true;
    {
        std::unique_lock lock(mutex_);
        taken_.wait(lock, [this] { return piece_.empty() || closed_; });
        if (closed_) return false;
        piece_ = std::move(piece);
        if (!std::exchange(waiting_, false)) return true;
    }
    wake();
    return true;
}

void byte_pipe::end() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
        if (!std::exchange(waiting_, false)) return;
    }
    wake();
}

void byte_pipe::close() {
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
        taken_.notify_all();
        if (!std::exchange(waiting_, false)) return;
    }
    wake();
}

void byte_pipe::wake() {
    // On the strand, so that next() has begun its wait when this cancels it.
    net::post(strand_, [self = shared_from_this()] { self->timer_.cancel(); });
}

net::awaitable<std::string> byte_pipe::next() {
    for (;;) {
        {
            std::lock_guard lock(mutex_);
            if (closed_) co_return std::string();
            if (!piece_.empty()) {
                taken_.notify_all();
                co_return std::exchange(piece_, {});
            }
            if (ended_) co_return std::string();
            waiting_ = true;
        }
        timer_.expires_at(net::steady_timer::time_point::max());
        // A wake-up may also come late, for a piece that was taken already: the check above
        // decides.
        [[maybe_unused]] auto [error] = co_await timer_.async_wait(use_tuple);
        std::lock_guard lock(mutex_);
        waiting_ = false;
    }
}

}  // namespace semantic::server

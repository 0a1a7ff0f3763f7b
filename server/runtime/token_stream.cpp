#include "server/runtime/token_stream.hpp"

#include <boost/asio/post.hpp>

#include <utility>

#include "server/runtime/tokens.hpp"

namespace semantic::server {

token_stream::token_stream(net::any_io_executor strand) : strand_(strand), timer_(strand) {}

void token_stream::on_event(engine::generation_event event) noexcept {
    {
        std::lock_guard lock(mutex_);
        if (interrupted_) return;
        if (!first_token_ && std::holds_alternative<engine::token_text>(event))
            first_token_ = std::chrono::steady_clock::now();
        events_.push_back(std::move(event));
        if (!std::exchange(waiting_, false)) return;
    }
    wake();
}

void token_stream::interrupt() {
    {
        std::lock_guard lock(mutex_);
        interrupted_ = true;
        events_.clear();
        if (!std::exchange(waiting_, false)) return;
    }
    wake();
}

bool token_stream::interrupted() const {
    std::lock_guard lock(mutex_);
    return interrupted_;
}

std::optional<std::chrono::steady_clock::duration> token_stream::first_token_after() const {
    std::lock_guard lock(mutex_);
    if (!first_token_) return std::nullopt;
    return *first_token_ - made_;
}

// The timer belongs to the strand, so the wake-up runs there, after next() has begun its wait.
void token_stream::wake() {
    net::post(strand_, [self = shared_from_this()] { self->timer_.cancel(); });
}

net::awaitable<std::vector<engine::generation_event>> token_stream::next(
    std::chrono::steady_clock::time_point until) {
    for (;;) {
        {
            std::lock_guard lock(mutex_);
            if (!events_.empty() || interrupted_) co_return std::exchange(events_, {});
            if (std::chrono::steady_clock::now() >= until) co_return std::exchange(events_, {});
            waiting_ = true;
        }
        timer_.expires_at(until);
        // Both outcomes lead back to the look above: the time passed, or a wake-up (perhaps a stale
        // one) cut the wait.
        [[maybe_unused]] auto [error] = co_await timer_.async_wait(use_tuple);
        std::lock_guard lock(mutex_);
        waiting_ = false;
    }
}

}  // namespace semantic::server

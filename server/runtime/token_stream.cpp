// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/token_stream.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include <utility>

#include "server/runtime/tokens.hpp"
#include "server/usage/key_account.hpp"

namespace semantic::server {

waking_streams::waking_streams(net::any_io_executor io_threads)
    : io_threads_(std::move(io_threads)) {}

void waking_streams::add(std::shared_ptr<token_stream> stream) {
    std::lock_guard lock(mutex_);
    streams_.push_back(std::move(stream));
}

void waking_streams::wake_all() {
    std::vector<std::shared_ptr<token_stream>> streams;
    {
        std::lock_guard lock(mutex_);
        streams.swap(streams_);
    }
    if (streams.empty()) return;
    net::post(io_threads_, [streams = std::move(streams)] {
        for (const auto& stream : streams) stream->wake();
    });
}

token_stream::token_stream(net::any_io_executor strand, waking_streams& together,
                           std::shared_ptr<key_account> account)
    : account_(std::move(account)), strand_(strand), together_(together), timer_(strand) {}

void token_stream::charge(const engine::generation_event& event) noexcept {
    const auto now = std::chrono::steady_clock::now();
    if (const auto* begun = std::get_if<engine::admitted>(&event)) {
        const engine::prompt_usage& usage = begun->usage;
        account_->count_prompt(
            static_cast<std::uint64_t>(usage.prompt_tokens - usage.reused_tokens),
            static_cast<std::uint64_t>(usage.reused_tokens), now);
    } else if (std::holds_alternative<engine::token_text>(event)) {
        account_->count_output(1, now);
        ++charged_;
    } else if (const auto* end = std::get_if<engine::finished>(&event)) {
        // Tokens that were computed and gave no event: those after a stop string.
        const auto all = static_cast<std::uint64_t>(end->output_tokens);
        if (all > charged_) account_->count_output(all - charged_, now);
    }
}

void token_stream::on_event(engine::generation_event event) noexcept {
    if (account_) charge(event);
    {
        std::lock_guard lock(mutex_);
        if (interrupted_) return;
        if (!first_token_ && std::holds_alternative<engine::token_text>(event))
            first_token_ = std::chrono::steady_clock::now();
        events_.push_back(std::move(event));
        if (!std::exchange(waiting_, false)) return;
    }
    together_.add(shared_from_this());
}

void token_stream::on_group_end() noexcept { together_.wake_all(); }

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

void token_stream::wake() {
    // On the strand, so that next() has begun its wait when this cancels it.
    net::dispatch(strand_, [self = shared_from_this()] { self->timer_.cancel(); });
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
        // The time passed, or a wake-up (perhaps a late one) ended the wait: the check above
        // decides.
        [[maybe_unused]] auto [error] = co_await timer_.async_wait(use_tuple);
        std::lock_guard lock(mutex_);
        waiting_ = false;
    }
}

}  // namespace semantic::server

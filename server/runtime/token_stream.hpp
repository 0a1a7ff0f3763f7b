// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one bridge from engine threads to a coroutine: one request's events in order.
// Owner: shared by the engine (which pushes) and the handler (which takes). Thread: on_event(),
// on_group_end() and interrupt() from anywhere, next() from one coroutine at a time, on the strand
// given at construction. Bound: the request's max_tokens, so a push can neither fail nor wait.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.hpp"
#include "engine/types/generation.hpp"
#include "server/engines/engine_slot.hpp"

namespace semantic::server {

class key_account;
class token_stream;

/// The streams that got events in a step of the engine. One message to the I/O threads wakes all of
/// them after the step: one message for each would take a core from compute once for every answer
/// of every step. Owner: app. Thread: any.
class waking_streams {
  public:
    explicit waking_streams(boost::asio::any_io_executor io_threads);
    /// Notes a stream that must be woken.
    void add(std::shared_ptr<token_stream> stream);
    /// Wakes the noted streams.
    void wake_all();

  private:
    boost::asio::any_io_executor io_threads_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<token_stream>> streams_;  // guarded by mutex_
};

class token_stream final : public engine::generation_sink,
                           public std::enable_shared_from_this<token_stream> {
  public:
    /// `together`: wakes the stream; outlives it. `account`: is charged for the tokens; may be
    /// null.
    token_stream(boost::asio::any_io_executor strand, waking_streams& together,
                 std::shared_ptr<key_account> account = nullptr);

    void on_event(engine::generation_event event) noexcept override;
    void on_group_end() noexcept override;

    /// Returns: all events that have arrived; waits for the first one if need be. Empty when
    /// `until` passed or after interrupt(). When the coroutine is cancelled, no event is lost.
    boost::asio::awaitable<std::vector<engine::generation_event>> next(
        std::chrono::steady_clock::time_point until);

    /// Says that the client is gone: next() returns at once from now on.
    void interrupt();
    bool interrupted() const;
    /// The time from construction to the first token, measured on the engine's thread, so that
    /// neither a busy strand nor a slow client is in it. Nothing before that token.
    std::optional<std::chrono::steady_clock::duration> first_token_after() const;

  private:
    friend class waking_streams;
    void wake();
    /// Counts the event's tokens for the account, also when the client has left: they were
    /// computed.
    /// Requires: there is an account.
    void charge(const engine::generation_event& event) noexcept;

    const std::shared_ptr<key_account> account_;  // or null
    std::uint64_t charged_ = 0;                   // tokens of the answer; engine's thread only
    boost::asio::any_io_executor strand_;
    waking_streams& together_;
    boost::asio::steady_timer timer_;  // strand only
    const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
    mutable std::mutex mutex_;
    std::optional<std::chrono::steady_clock::time_point> first_token_;  // guarded by mutex_
    std::vector<engine::generation_event> events_;                      // guarded by mutex_
    bool waiting_ = false;                                              // guarded by mutex_
    bool interrupted_ = false;                                          // guarded by mutex_
};

/// A request that the engine works on for as long as this object lives: leaving the scope before
/// the last event, by whatever way, cancels it.
class running_request {
  public:
    /// Requires: `engine` is not empty.
    running_request(engine_lease engine, engine::generation_request request,
                    std::shared_ptr<engine::generation_sink> events)
        : engine_(std::move(engine)), id_(engine_->submit(std::move(request), std::move(events))) {}
    ~running_request() {
        if (!ended_) engine_->cancel(id_);
    }
    running_request(const running_request&) = delete;
    running_request& operator=(const running_request&) = delete;
    /// Notes that the last event came, so that nothing is cancelled.
    void ended() noexcept { ended_ = true; }
    engine::request_id id() const noexcept { return id_; }

  private:
    engine_lease engine_;
    engine::request_id id_;
    bool ended_ = false;
};

}  // namespace semantic::server

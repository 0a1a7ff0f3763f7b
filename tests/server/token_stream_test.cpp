// SPDX-License-Identifier: Apache-2.0
// The bridge from the engine's threads to a handler's coroutine.

#include "server/runtime/token_stream.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>

#include <gtest/gtest.h>

#include "server/runtime/tokens.hpp"

namespace semantic::server {
namespace {

using engine::token_text;

std::chrono::steady_clock::time_point in_a_minute() {
    return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

class token_streams : public testing::Test {
  protected:
    /// A stream whose reader waits: `taken` grows by what each next() brings.
    std::shared_ptr<token_stream> read_into(std::size_t& taken) {
        auto strand = net::make_strand(io_);
        auto stream = std::make_shared<token_stream>(strand, together_);
        net::co_spawn(strand, read(stream, taken), net::use_future);
        run();
        return stream;
    }
    /// Runs what can run. Returns: how much that was.
    std::size_t run() {
        io_.restart();
        return io_.poll();
    }
    static net::awaitable<void> read(std::shared_ptr<token_stream> stream, std::size_t& taken) {
        while (!stream->interrupted()) taken += (co_await stream->next(in_a_minute())).size();
    }

    net::io_context io_;
    waking_streams together_{io_.get_executor()};
};

TEST_F(token_streams, are_woken_when_all_of_a_step_have_theirs_and_not_before) {
    std::size_t first = 0, second = 0;
    auto one = read_into(first), other = read_into(second);
    one->on_event(token_text{"a", 1});
    other->on_event(token_text{"b", 2});
    other->on_event(token_text{"c", 3});
    EXPECT_EQ(run(), 0u);
    one->on_group_end();
    other->on_group_end();
    EXPECT_GT(run(), 0u);
    EXPECT_EQ(first, 1u);
    EXPECT_EQ(second, 2u);
    one->interrupt();
    other->interrupt();
    run();
}

TEST_F(token_streams, wait_for_nobody_else_when_they_are_interrupted) {
    std::size_t taken = 0;
    auto stream = read_into(taken);
    stream->interrupt();
    EXPECT_GT(run(), 0u);
    EXPECT_EQ(stream.use_count(), 1);  // its reader has left
}

TEST_F(token_streams, bring_what_came_while_the_reader_was_busy_without_a_wake_up) {
    auto strand = net::make_strand(io_);
    auto stream = std::make_shared<token_stream>(strand, together_);
    stream->on_event(token_text{"a", 1});
    stream->on_group_end();
    std::size_t taken = 0;
    net::co_spawn(strand, read(stream, taken), net::use_future);
    run();
    EXPECT_EQ(taken, 1u);
    stream->interrupt();
    run();
}

}  // namespace
}  // namespace semantic::server

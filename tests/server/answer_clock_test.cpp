// SPDX-License-Identifier: Apache-2.0
#include "server/engines/answer_clock.hpp"

#include <gtest/gtest.h>

namespace semantic::server {
namespace {

using namespace std::chrono_literals;
using clock = answer_clock::clock;

TEST(answer_clock, an_answer_is_waited_for_until_its_deadline_and_a_little_longer) {
    const auto now = clock::now();
    answer_clock time(now + 600s, 10s, now);
    EXPECT_EQ(time.until(), now + 610s);
    time.take(engine::token_text{"a", 1}, now + 5s);
    EXPECT_EQ(time.until(), now + 610s);
}

TEST(answer_clock, its_time_begins_when_the_request_does) {
    const auto now = clock::now();
    answer_clock time(now + 600s, 10s, now);
    time.take(engine::queued{3, 100s}, now + 1s);
    EXPECT_GT(time.until(), now + 23h);
    engine::admitted begun{*storage::agent_id::parse("a"), {}};
    begun.at = now + 900s;
    time.take(begun, now + 1000s);
    EXPECT_EQ(time.until(), now + 900s + 610s);
}

}  // namespace
}  // namespace semantic::server

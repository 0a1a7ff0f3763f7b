// SPDX-License-Identifier: Apache-2.0
// Rates and debts, by a clock that the test moves.

#include "server/usage/token_bucket.hpp"

#include <gtest/gtest.h>

namespace semantic::server {
namespace {

using namespace std::chrono_literals;

const token_bucket::time_point start{1000s};

TEST(token_bucket, a_minutes_worth_is_there_at_once_and_not_one_more) {
    token_bucket bucket(60, start);
    for (int i = 0; i < 60; ++i) {
        ASSERT_GE(bucket.left(start), 1) << i;
        bucket.take(1, start);
    }
    EXPECT_LT(bucket.left(start), 1);
    EXPECT_EQ(bucket.until(1, start), 1s);
}

TEST(token_bucket, it_comes_back_at_the_rate_and_never_beyond_its_size) {
    token_bucket bucket(120, start);
    bucket.take(120, start);
    EXPECT_DOUBLE_EQ(bucket.left(start + 500ms), 1);
    EXPECT_DOUBLE_EQ(bucket.left(start + 30s), 60);
    EXPECT_DOUBLE_EQ(bucket.left(start + 60s), 120);
    EXPECT_DOUBLE_EQ(bucket.left(start + 1h), 120);
}

TEST(token_bucket, a_debt_is_waited_for) {
    token_bucket bucket(600, start);
    bucket.take(1600, start);  // an answer that was longer than a minute's worth
    EXPECT_DOUBLE_EQ(bucket.left(start), -1000);
    EXPECT_EQ(bucket.until(0, start), 100s);
    EXPECT_GE(bucket.left(start + bucket.until(1, start)), 1) << "it is there when it was said";
    EXPECT_LT(bucket.left(start + bucket.until(1, start) - 1ms), 1) << "and not before";
}

TEST(token_bucket, what_was_taken_too_much_is_given_back_up_to_its_size) {
    token_bucket bucket(60, start);
    bucket.take(10, start);
    bucket.take(-4, start);
    EXPECT_DOUBLE_EQ(bucket.left(start), 54);
    bucket.take(-1000, start);
    EXPECT_DOUBLE_EQ(bucket.left(start), 60);
}

TEST(token_bucket, a_clock_that_another_thread_read_earlier_changes_nothing) {
    token_bucket bucket(60, start);
    bucket.take(60, start + 10s);
    bucket.take(0, start);
    EXPECT_DOUBLE_EQ(bucket.left(start + 10s), 0);
    EXPECT_DOUBLE_EQ(bucket.left(start), 0);
}

}  // namespace
}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/backoff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace semantic::storage {
namespace {

using std::chrono::milliseconds;

TEST(backoff, allows_as_many_attempts_as_its_bound_and_not_one_more) {
    for (int attempts_max : {1, 2, 6}) {
        backoff_options options;
        options.attempts_max = attempts_max;
        backoff tries(options, 1);
        for (int i = 1; i < attempts_max; ++i)
            EXPECT_TRUE(tries.next(milliseconds(0), milliseconds(0))) << i;
        EXPECT_FALSE(tries.next(milliseconds(0), milliseconds(0)));
        EXPECT_EQ(tries.attempts(), attempts_max);
    }
}

TEST(backoff, draws_evenly_below_a_bound_that_doubles_up_to_the_longest) {
    const std::vector<int> bounds{100, 200, 400, 800, 1000, 1000};
    std::vector<std::vector<std::int64_t>> waits(bounds.size());
    backoff_options options;
    options.attempts_max = 100;
    options.wait_max = milliseconds(1000);
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        backoff tries(options, seed);
        for (auto& each : waits)
            each.push_back(tries.next(milliseconds(0), milliseconds(0))->count());
    }
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        const auto [least, most] = std::minmax_element(waits[i].begin(), waits[i].end());
        EXPECT_GE(*least, 0);
        EXPECT_LE(*most, bounds[i]);
        EXPECT_LT(*least, bounds[i] / 20) << "full jitter reaches down to nothing";
        EXPECT_GT(*most, bounds[i] * 19 / 20);
        double sum = 0;
        for (const auto each : waits[i]) sum += static_cast<double>(each);
        EXPECT_NEAR(sum / 2000, bounds[i] / 2.0, bounds[i] / 20.0);
    }
}

TEST(backoff, waits_at_least_as_long_as_the_other_side_asks) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        backoff tries({}, seed);
        const auto wait = tries.next(milliseconds(0), milliseconds(3000));
        ASSERT_TRUE(wait);
        EXPECT_GE(*wait, milliseconds(3000));
        EXPECT_LE(*wait, milliseconds(3100));
    }
}

TEST(backoff, begins_no_attempt_beyond_its_time) {
    backoff_options options;
    options.first_max = milliseconds(0);
    options.total_max = milliseconds(1000);
    EXPECT_TRUE(backoff(options, 1).next(milliseconds(1000), milliseconds(0)));
    EXPECT_FALSE(backoff(options, 1).next(milliseconds(1001), milliseconds(0)));
    EXPECT_TRUE(backoff(options, 1).next(milliseconds(500), milliseconds(500)));
    EXPECT_FALSE(backoff(options, 1).next(milliseconds(500), milliseconds(501)));
}

TEST(backoff, a_thousand_doublings_do_not_overflow) {
    backoff_options options;
    options.attempts_max = 2000;
    backoff tries(options, 1);
    for (int i = 1; i < 2000; ++i) {
        const auto wait = tries.next(milliseconds(0), milliseconds(0));
        ASSERT_TRUE(wait);
        ASSERT_LE(*wait, options.wait_max);
        ASSERT_GE(*wait, milliseconds(0));
    }
}

}  // namespace
}  // namespace semantic::storage

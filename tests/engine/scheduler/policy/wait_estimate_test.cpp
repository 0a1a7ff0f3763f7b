// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/wait_estimate.hpp"

#include <gtest/gtest.h>

namespace semantic::engine {
namespace {

TEST(wait_estimate, is_nothing_before_any_request_has_ended) {
    EXPECT_EQ(wait_estimate().seconds(100, 1), 0);
}

TEST(wait_estimate, is_the_time_in_which_so_many_places_become_free) {
    wait_estimate estimate;
    estimate.learn(8.0);
    struct row {
        int ahead, places;
        double expected;
    };
    for (row r : {row{0, 1, 8}, row{0, 16, 0.5}, row{15, 16, 8}, row{255, 16, 128}, row{3, 4, 8},
                  row{0, 0, 8}})
        EXPECT_DOUBLE_EQ(estimate.seconds(r.ahead, r.places), r.expected)
            << r.ahead << " ahead, " << r.places << " places";
}

TEST(wait_estimate, follows_what_requests_take_now) {
    wait_estimate estimate;
    estimate.learn(1.0);
    estimate.learn(2.0);
    EXPECT_DOUBLE_EQ(estimate.seconds(0, 1), 1.1);
    for (int i = 0; i < 100; ++i) estimate.learn(2.0);
    EXPECT_NEAR(estimate.seconds(0, 1), 2.0, 0.01);
    estimate.learn(-1.0);  // a clock that was set back
    EXPECT_GE(estimate.seconds(0, 1), 0);
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/drafting.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::engine {
namespace {

using tokens = std::vector<storage::token_id>;

const tokens said{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3};

TEST(drafting, a_draft_is_taken_token_by_token_as_far_as_it_is_right) {
    drafting open(64, nullptr);
    EXPECT_EQ(open.look(said, 4).tokens, 4);
    open.begin(3, 3);
    EXPECT_EQ(tokens(open.running().begin(), open.running().end()), (tokens{3, 4, 5, 6}));
    EXPECT_TRUE(open.take(4));
    EXPECT_TRUE(open.take(5));
    EXPECT_FALSE(open.take(9));
    EXPECT_EQ(open.usage().sum().taken, 2) << "while it is run";
    const auto came = open.end();
    EXPECT_EQ(came.origin, draft_origin::repeats);
    EXPECT_EQ(came.count.drafted, 3);
    EXPECT_EQ(came.count.taken, 2);
    EXPECT_EQ(open.usage().sum().drafted, 3);
    EXPECT_EQ(open.usage().sum().taken, 2);
    EXPECT_TRUE(open.running().empty());
}

TEST(drafting, nothing_follows_the_last_token_of_a_draft) {
    drafting open(64, nullptr);
    open.look(said, 1);
    open.begin(3, 1);
    EXPECT_TRUE(open.take(4));
    EXPECT_FALSE(open.take(5));
}

TEST(drafting, there_is_none_without_a_place_or_without_room) {
    drafting open(64, nullptr);
    EXPECT_EQ(open.look(tokens{1, 2, 3, 4}, 4).tokens, 0);
    EXPECT_EQ(open.look(said, 0).tokens, 0);
    EXPECT_FALSE(open.take(4));
    EXPECT_EQ(open.end().count.drafted, 0);
}

TEST(drafting, wrong_drafts_are_trusted_less_and_right_ones_more) {
    drafting open(64, nullptr);
    const double at_first = open.look(said, 1).chance;
    const auto run = [&](storage::token_id drawn) {
        open.look(said, 1);
        open.begin(3, 1);
        open.take(drawn);
        open.end();
    };
    for (int i = 0; i < 20; ++i) run(9);
    const double wrong = open.look(said, 1).chance;
    EXPECT_LT(wrong, at_first / 5);
    for (int i = 0; i < 40; ++i) run(4);
    EXPECT_GT(open.look(said, 1).chance, 0.9);
}

TEST(drafting, what_is_not_run_for_long_is_tried_again) {
    drafting open(64, nullptr);
    const double at_first = open.look(said, 1).chance;
    for (int i = 0; i < 20; ++i) {
        open.look(said, 1);
        open.begin(3, 1);
        open.end();
    }
    for (int i = 0; i < 300; ++i) {
        open.look(said, 1);
        open.end();
    }
    EXPECT_GT(open.look(said, 1).chance, at_first * 0.9);
}

}  // namespace
}  // namespace semantic::engine

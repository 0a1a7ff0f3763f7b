// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/draft_plan.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace semantic::engine {
namespace {

/// Passes of 1, 2, 3 to 4, 5 to 8 and 9 to 16 rows that take so many milliseconds.
step_cost passes_of(const std::vector<double>& milliseconds) {
    step_cost cost;
    int rows = 1;
    for (const double each : milliseconds) {
        for (int i = 0; i < 50; ++i) cost.learn({rows, 0, 0, each / 1000});
        rows *= 2;
    }
    return cost;
}

using counts = std::vector<int>;
counts plan(const std::vector<draft_view>& drafts, const step_cost& cost) {
    return plan_drafts(drafts, cost);
}

// Reading the weights is most of a pass: more rows cost little.
const step_cost bound_by_memory = passes_of({20, 21, 23, 28, 50, 90, 170});
// Every row costs the same.
const step_cost bound_by_compute = passes_of({20, 40, 80, 160, 320, 640});

TEST(plan_drafts, runs_what_makes_tokens_come_faster) {
    EXPECT_EQ(plan({{15, 0.9}}, bound_by_memory), counts{7}) << "8 rows in 28 ms";
    EXPECT_EQ(plan({{15, 1.0}}, bound_by_memory), counts{15});
    EXPECT_EQ(plan({{3, 1.0}}, bound_by_memory), counts{3});
    EXPECT_EQ(plan({{15, 0.3}}, bound_by_memory), counts{1});
    EXPECT_EQ(plan({{15, 0.02}}, bound_by_memory), counts{0});
    EXPECT_EQ(plan({{0, 0.0}}, bound_by_memory), counts{0});
    EXPECT_TRUE(plan({}, bound_by_memory).empty());
}

TEST(plan_drafts, runs_nothing_where_a_row_costs_what_a_pass_does) {
    EXPECT_EQ(plan({{15, 0.95}}, bound_by_compute), counts{0});
    EXPECT_EQ(plan({{15, 0.95}, {15, 0.95}}, bound_by_compute), (counts{0, 0}));
}

TEST(plan_drafts, runs_nothing_before_a_pass_was_measured) {
    EXPECT_EQ(plan({{15, 1.0}}, step_cost()), counts{0});
}

// A pass of 16 rows may cost three times as much as one: a draft that is likely wrong is no way to
// find that out.
TEST(plan_drafts, tries_few_rows_before_many_where_none_were_measured) {
    const step_cost of_one_row = passes_of({20});
    EXPECT_EQ(plan({{15, 0.4}}, of_one_row), counts{1});
    EXPECT_EQ(plan({{15, 0.9}}, of_one_row), counts{15}) << "so likely right that it pays anyway";
    EXPECT_EQ(plan({{15, 0.2}}, of_one_row), counts{0});
    EXPECT_EQ(plan({{15, 0.2}}, passes_of({20, 21})), counts{1}) << "2 rows are measured";
}

TEST(plan_drafts, runs_all_or_nothing_where_it_is_told_to) {
    EXPECT_EQ(plan_drafts(std::vector<draft_view>{{9, 0.01}}, bound_by_compute, draft_rule::always),
              counts{9});
    EXPECT_EQ(plan_drafts(std::vector<draft_view>{{9, 1.0}}, bound_by_memory, draft_rule::never),
              counts{0});
}

TEST(plan_drafts, the_surest_tokens_of_all_sequences_come_first) {
    const counts both = plan({{15, 0.5}, {15, 0.98}}, bound_by_memory);
    EXPECT_GT(both[1], 5);
    EXPECT_LE(both[0], 2);
}

TEST(plan_drafts, a_step_runs_so_many_draft_tokens_and_not_one_more) {
    const std::vector<draft_view> many(8, {15, 1.0});
    const step_cost free = passes_of({20, 20, 20, 20, 20, 20});
    const counts all = plan(many, free);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), draft_tokens_most);
    EXPECT_EQ(plan({{200, 1.0}}, free), counts{draft_tokens_most});
}

// From 16 rows on a row costs what is computed, and not only what is read.
TEST(plan_drafts, fades_out_as_more_sequences_run) {
    struct row {
        std::size_t sequences;
        int expected;
    };
    for (const row each : {row{1, 3}, row{4, 4}, row{16, 0}, row{32, 0}}) {
        const counts all =
            plan(std::vector<draft_view>(each.sequences, {15, 0.6}), bound_by_memory);
        EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), each.expected) << each.sequences;
    }
}

TEST(draft_trust, each_kind_of_match_has_its_own) {
    draft_trust trust;
    EXPECT_LT(trust.chance(3), trust.chance(4));
    EXPECT_EQ(trust.chance(4), trust.chance(7));
    EXPECT_LT(trust.chance(7), trust.chance(8));
    EXPECT_LT(trust.chance(16), trust.chance(64));
    const double longer = trust.chance(64);
    for (int i = 0; i < 30; ++i) trust.learn(3, 4, 0);
    EXPECT_LT(trust.chance(3), 0.02);
    EXPECT_EQ(trust.chance(64), longer);
    for (int i = 0; i < 1000; ++i) trust.forget(3);
    EXPECT_NEAR(trust.chance(3), draft_trust().chance(3), 0.01);
}

}  // namespace
}  // namespace semantic::engine

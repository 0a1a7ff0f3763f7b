// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace semantic::engine {
namespace {

constexpr chunk_policy policy{512, 4096, 2048, std::chrono::milliseconds(200)};
const step_cost unknown;

// A machine on which a decoding sequence costs 10 ms a step, and a chunk's token 1 ms and more the
// deeper it is.
double seconds_of(const step_sample& step) {
    double depth = step.chunk_position + step.chunk_tokens / 2.0;
    return 0.010 * step.decoding + step.chunk_tokens * 0.001 * (1 + depth / 8000);
}

step_cost learnt_from(std::vector<step_sample> steps) {
    step_cost cost;
    for (step_sample step : steps) {
        if (step.seconds == 0) step.seconds = seconds_of(step);
        cost.learn(step);
    }
    return cost;
}

TEST(plan_step, nothing_running_is_an_empty_step) {
    EXPECT_TRUE(plan_step({}, policy, unknown, {}).empty());
}

TEST(plan_step, every_decoding_sequence_gets_one_token_in_each_step) {
    std::vector<sequence_view> running{{1, 10, 1, true}, {2, 0, 9000, false}, {3, 700, 1, true}};
    step_plan step = plan_step(running, policy, unknown, {});
    EXPECT_EQ(step.decode, (std::vector<std::size_t>{0, 2}));
    ASSERT_TRUE(step.prefill);
    EXPECT_EQ(step.prefill->index, 1u);
}

TEST(plan_step, a_chunk_beside_decoding_sequences_fills_the_time_they_leave) {
    std::vector<sequence_view> running{{1, 10, 1, true}, {2, 0, 9000, false}};
    EXPECT_EQ(plan_step(running, policy, unknown, {}).prefill->tokens, 64);  // the first is a guess
    step_cost cost = learnt_from({{1, 0, 0, 0.050}, {0, 0, 1000, 1.0}});
    EXPECT_EQ(plan_step(running, policy, cost, {}).prefill->tokens, 144);  // 150 ms for 1 ms each
    running[0].decoding = false;
    running[0].pending = 0;
    EXPECT_EQ(plan_step(running, policy, cost, {}).prefill->tokens, 4096);
}

TEST(plan_step, a_chunk_ends_at_the_next_place_whose_state_is_kept) {
    std::vector<sequence_view> running{{1, 100, 9000, false, false, 150}};
    EXPECT_EQ(plan_step(running, policy, unknown, {}).prefill->tokens, 50);
    running[0].next_place = 101;
    EXPECT_EQ(plan_step(running, policy, unknown, {}).prefill->tokens, 1);
    running[0].next_place = 100 + 4096;
    EXPECT_EQ(plan_step(running, policy, unknown, {}).prefill->tokens, 4096);
    running[0].next_place = 100 + 4097;
    EXPECT_EQ(plan_step(running, policy, unknown, {}).prefill->tokens, 4096);
    running[0].next_place = 0;
    EXPECT_EQ(plan_step(running, policy, unknown, {}).prefill->tokens, 4096);
}

TEST(chunk_tokens, answers_of_other_tenants_take_half_as_long_again_for_a_chunk_at_most) {
    step_cost cost = learnt_from({{4, 0, 0, 0.064}, {0, 0, 1000, 1.0}});  // 1 ms a token
    struct row {
        int foreign, expected;
    };
    for (row r : {row{0, 128}, row{1, 32}, row{4, 32}})
        EXPECT_EQ(chunk_tokens_beside({4, r.foreign}, 0, 9000, policy, cost), r.expected)
            << r.foreign;
    cost = learnt_from({{4, 0, 0, 0.190}, {0, 0, 1000, 1.0}});
    EXPECT_EQ(chunk_tokens_beside({4, 4}, 0, 9000, policy, cost), 16) << "the latency holds";
}

TEST(plan_step, a_chunk_is_shorter_where_answers_of_other_tenants_decode) {
    step_cost cost = learnt_from({{2, 0, 0, 0.064}, {0, 0, 1000, 1.0}});
    const storage::tenant_id one{}, two{{1, 2}};
    std::vector<sequence_view> running{{1, 10, 1, true}, {2, 0, 9000, false}, {3, 700, 1, true}};
    EXPECT_EQ(plan_step(running, policy, cost, {}).prefill->tokens, 128);
    running[1].tenant = two;
    EXPECT_EQ(plan_step(running, policy, cost, {}).prefill->tokens, 32);
    running[0].tenant = running[2].tenant = two;
    EXPECT_EQ(plan_step(running, policy, cost, {}).prefill->tokens, 128);
    running[2].tenant = one;
    EXPECT_EQ(plan_step(running, policy, cost, {}).prefill->tokens, 32);
}

TEST(chunk_tokens, alone_a_long_prompt_gets_shorter_chunks_the_deeper_it_is) {
    struct row {
        int position, expected;
    };
    for (row r : {row{0, 4096}, row{1999, 4096}, row{2000, 2048}, row{7999, 2048}, row{8000, 1024},
                  row{19999, 1024}, row{20000, 512}, row{100000, 512}})
        EXPECT_EQ(chunk_tokens(r.position, 50000, policy), r.expected) << r.position;
}

TEST(chunk_tokens, a_rest_up_to_the_threshold_runs_as_one_chunk) {
    EXPECT_EQ(chunk_tokens(30000, 2048, policy), 2048);
    EXPECT_EQ(chunk_tokens(30000, 2049, policy), 512);
}

TEST(chunk_tokens, never_exceeds_what_is_pending_or_the_largest_chunk) {
    step_cost fast = learnt_from({{1, 0, 0, 1e-6}, {1, 0, 1000, 1e-5}});
    for (int pending : {1, 2, 15, 16, 17, 511, 512, 513, 4095, 4096, 4097}) {
        int alone = chunk_tokens(0, pending, policy);
        EXPECT_GE(alone, 1);
        EXPECT_LE(alone, std::min(pending, policy.max_tokens));
        for (const step_cost& cost : {unknown, fast}) {
            int shared = chunk_tokens_beside({1}, 0, pending, policy, cost);
            EXPECT_GE(shared, 1);
            EXPECT_LE(shared, alone);
        }
        EXPECT_EQ(chunk_tokens_beside({1}, 0, pending, policy, fast), alone) << "all of it fits";
    }
    chunk_policy small{16, 32, 2048};
    EXPECT_EQ(chunk_tokens(0, 2000, small), 32);
}

TEST(chunk_tokens, a_step_that_has_no_time_left_still_runs_a_few) {
    step_cost slow = learnt_from({{16, 0, 0, 0.5}, {0, 0, 1000, 5.0}});
    EXPECT_EQ(chunk_tokens_beside({16}, 0, 9000, policy, slow), 16);
    EXPECT_EQ(chunk_tokens_beside({16}, 0, 3, policy, slow), 3);
}

TEST(chunk_tokens, beside_decoding_sequences_it_is_whole_grains_of_16) {
    step_cost cost = learnt_from({{1, 0, 0, 0.1}, {0, 0, 1000, 1.0}});  // 1 ms a token
    struct row {
        int milliseconds, expected;
    };
    for (row r : {row{101, 16}, row{115, 16}, row{131, 16}, row{133, 32}, row{147, 32},
                  row{149, 48}, row{50, 16}}) {
        chunk_policy tight = policy;
        tight.decode_latency = std::chrono::milliseconds(r.milliseconds);
        EXPECT_EQ(chunk_tokens_beside({1}, 0, 9000, tight, cost), r.expected) << r.milliseconds;
    }
}

// A chunk is waited for by every decoding sequence: eight wait the whole latency, more share it,
// down to a third more than what their decoding takes.
TEST(chunk_tokens, a_crowd_that_decodes_waits_less_for_a_chunk) {
    struct row {
        int decoding;
        double decode_seconds;
        int expected;
    };
    for (row r : {row{1, 0.016, 176}, row{8, 0.016, 176}, row{9, 0.016, 160}, row{16, 0.016, 80},
                  row{25, 0.016, 48}, row{200, 0.016, 16}, row{200, 0.150, 48}, row{200, 0.160, 32},
                  row{200, 0.180, 16}, row{16, 0.096, 32}, row{16, 0.120, 32}}) {
        step_cost cost = learnt_from({{r.decoding, 0, 0, r.decode_seconds}, {0, 0, 1000, 1.0}});
        EXPECT_EQ(chunk_tokens_beside({r.decoding}, 0, 9000, policy, cost), r.expected)
            << r.decoding << " of " << r.decode_seconds;
    }
}

TEST(step_cost, says_nothing_before_it_has_seen_anything) {
    EXPECT_EQ(unknown.decode_seconds(4), 0);
    EXPECT_EQ(unknown.prefill_seconds(0), std::nullopt);
    step_cost useless = learnt_from({{0, 0, 0, 1.0}, {1, 0, 15, 1.0}, {1, 0, 0, -1.0}});
    EXPECT_EQ(useless.decode_seconds(1), 0);
    EXPECT_EQ(useless.prefill_seconds(0), std::nullopt);
}

TEST(step_cost, a_mean_moves_a_quarter_of_the_way_to_each_sample) {
    step_cost cost = learnt_from({{1, 0, 0, 0.1}, {1, 0, 0, 0.2}});
    EXPECT_DOUBLE_EQ(cost.decode_seconds(1), 0.125);
    cost = learnt_from({{0, 0, 100, 1.0}, {0, 0, 100, 2.0}});
    EXPECT_DOUBLE_EQ(*cost.prefill_seconds(0), 0.0125);
}

TEST(step_cost, what_was_not_measured_is_taken_from_what_is_nearest) {
    step_cost cost = learnt_from({{4, 0, 0, 0.4}, {0, 2000, 1000, 1.0}});
    for (int decoding : {1, 2, 3, 4, 5, 16, 1000})
        EXPECT_DOUBLE_EQ(cost.decode_seconds(decoding), 0.4) << decoding;
    struct row {
        int position;
        double expected;
    };
    // 1K to 3K was measured; a depth is at most twice as dear as the one below.
    for (row r : {row{0, 0.001}, row{1024, 0.001}, row{3071, 0.001}, row{3072, 0.002},
                  row{7167, 0.002}, row{7168, 0.004}, row{2'000'000, 0.128}})
        EXPECT_DOUBLE_EQ(*cost.prefill_seconds(r.position), r.expected) << r.position;
}

TEST(step_cost, the_first_chunk_is_charged_what_the_decoding_beside_it_does_not_explain) {
    step_cost cost = learnt_from({{2, 0, 0, 0.1}, {2, 0, 100, 0.3}});
    EXPECT_DOUBLE_EQ(*cost.prefill_seconds(0), 0.002);
    // A step that was over sooner than its decoding alone was before.
    cost = learnt_from({{2, 0, 0, 0.1}, {2, 0, 100, 0.05}});
    EXPECT_DOUBLE_EQ(*cost.prefill_seconds(0), 0.00005);
}

TEST(step_cost, a_step_that_took_longer_than_expected_makes_both_its_parts_dearer) {
    step_cost cost = learnt_from({{2, 0, 0, 0.1}, {2, 0, 100, 0.2}, {2, 0, 100, 0.4}});
    EXPECT_DOUBLE_EQ(cost.decode_seconds(2), 0.125);
    EXPECT_DOUBLE_EQ(*cost.prefill_seconds(0), 0.00125);
}

// What the two promise together: from whatever was known before, steps soon take the time they may,
// to the end of a long prompt.
TEST(step_cost, steps_beside_decoding_sequences_settle_on_the_latency_asked_for) {
    double wanted = std::chrono::duration<double>(policy.decode_latency).count();
    std::map<std::string, step_cost> beginnings{
        {"nothing known", unknown},
        {"a stall was measured", learnt_from({{4, 0, 0, 0.04}, {0, 0, 4096, 60.0}})},
        {"far too cheap", learnt_from({{4, 0, 0, 0.001}, {0, 0, 4096, 0.4}})},
        {"prompts alone", learnt_from({{0, 0, 4096, 0}, {0, 4096, 2048, 0}})},
        {"decoding dearer than it is", learnt_from({{4, 0, 0, 0.15}})}};
    for (auto& [name, cost] : beginnings) {
        double seconds = 0;
        int position = 0, steps = 0;
        for (; position + 400 < 32000; ++steps) {
            int tokens = chunk_tokens_beside({4}, position, 32000 - position, policy, cost);
            step_sample ran{4, position, tokens, 0};
            ran.seconds = seconds_of(ran);
            if (steps >= 16) {
                EXPECT_LE(ran.seconds, 2 * wanted) << name << " at " << position;
            }
            seconds += ran.seconds;
            cost.learn(ran);
            position += tokens;
            ASSERT_LT(steps, 2000) << name;
        }
        EXPECT_NEAR(seconds / steps, wanted, 0.25 * wanted) << name;
    }
}

}  // namespace
}  // namespace semantic::engine

#include "engine/scheduler/plan.hpp"

#include <gtest/gtest.h>

#include <map>

namespace semantic::engine {
namespace {

constexpr chunk_policy policy{512, 4096, 2048};

TEST(plan_step, nothing_running_is_an_empty_step) { EXPECT_TRUE(plan_step({}, policy, 0).empty()); }

TEST(plan_step, every_decoding_sequence_gets_one_token_in_each_step) {
    std::vector<sequence_view> running{{1, 10, 1, true}, {2, 0, 9000, false}, {3, 700, 1, true}};
    step_plan step = plan_step(running, policy, 0);
    EXPECT_EQ(step.decode, (std::vector<std::size_t>{0, 2}));
    ASSERT_TRUE(step.prefill);
    EXPECT_EQ(step.prefill->index, 1u);
}

TEST(plan_step, a_chunk_beside_decoding_sequences_is_the_smallest) {
    std::vector<sequence_view> running{{1, 10, 1, true}, {2, 0, 9000, false}};
    EXPECT_EQ(plan_step(running, policy, 0).prefill->tokens, 512);
}

TEST(plan_step, prefills_take_turns_chunk_by_chunk) {
    std::vector<sequence_view> running{
        {5, 0, 9000, false}, {2, 0, 9000, false}, {9, 0, 9000, false}};
    request_id last = 0;
    std::vector<request_id> order;
    for (int i = 0; i < 6; ++i) {
        last = running[plan_step(running, policy, last).prefill->index].id;
        order.push_back(last);
    }
    EXPECT_EQ(order, (std::vector<request_id>{2, 5, 9, 2, 5, 9}));
}

TEST(chunk_tokens, alone_a_long_prompt_gets_shorter_chunks_the_deeper_it_is) {
    struct row {
        int position, expected;
    };
    for (row r : {row{0, 4096}, row{1999, 4096}, row{2000, 2048}, row{7999, 2048}, row{8000, 1024},
                  row{19999, 1024}, row{20000, 512}, row{100000, 512}})
        EXPECT_EQ(chunk_tokens(r.position, 50000, false, policy), r.expected) << r.position;
}

TEST(chunk_tokens, a_rest_up_to_the_threshold_runs_as_one_chunk) {
    EXPECT_EQ(chunk_tokens(30000, 2048, false, policy), 2048);
    EXPECT_EQ(chunk_tokens(30000, 2049, false, policy), 512);
}

TEST(chunk_tokens, never_exceeds_what_is_pending_or_the_largest_chunk) {
    for (int pending : {1, 2, 511, 512, 513, 4095, 4096, 4097})
        for (bool busy : {false, true}) {
            int tokens = chunk_tokens(0, pending, busy, policy);
            EXPECT_GE(tokens, 1);
            EXPECT_LE(tokens, std::min(pending, policy.max_tokens));
        }
    chunk_policy small{16, 32, 2048};
    EXPECT_EQ(chunk_tokens(0, 2000, false, small), 32);
}

}  // namespace
}  // namespace semantic::engine

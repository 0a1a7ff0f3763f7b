// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/phases_tally.hpp"

#include <gtest/gtest.h>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

sse_event turn(const std::string& agent, int prompt, int reused, int output,
               const std::string& match) {
    return {"turn_complete", R"({"agent_name":")" + agent + R"(","semantic":{"prompt_tokens":)" +
                                 std::to_string(prompt) + R"(,"reused_tokens":)" +
                                 std::to_string(reused) + R"(,"computed_tokens":)" +
                                 std::to_string(prompt - reused) + R"(,"output_tokens":)" +
                                 std::to_string(output) + R"(,"match":")" + match + R"("}})"};
}

TEST(phases_tally, times_each_turn_from_what_came_before_it_and_counts_what_was_read_twice) {
    phases_tally tally;
    tally.on_event({"run_start", "{}"}, 0);
    tally.on_event({"phase_start", R"({"phase":"one"})"}, 1);
    tally.on_event({"turn_start", "{}"}, 1);
    tally.on_event({"token", "{}"}, 1.5);
    tally.on_event({"token", "{}"}, 2);
    tally.on_event(turn("Ada", 100, 0, 10, "miss"), 3);
    tally.on_event({"token", "{}"}, 3.25);
    tally.on_event(turn("Bob", 100, 90, 10, "extend"), 4);
    EXPECT_FALSE(tally.is_complete());
    tally.on_event({"phase_start", R"({"phase":"two"})"}, 5);
    tally.on_event(turn("Ada", 150, 30, 0, "diverge"), 6);
    tally.on_event({"run_complete", "{}"}, 6);
    EXPECT_TRUE(tally.is_complete());
    ASSERT_EQ(tally.turns().size(), 3u);
    EXPECT_DOUBLE_EQ(tally.turns()[0].first_s, 0.5);
    EXPECT_DOUBLE_EQ(tally.turns()[1].first_s, 0.25);
    EXPECT_DOUBLE_EQ(tally.turns()[2].first_s, 1) << "it has no text: the turn's end";
    EXPECT_EQ(tally.turns()[1].reread_tokens, 0);
    EXPECT_EQ(tally.turns()[2].reread_tokens, 80) << "110 were there, 30 were reused";
    EXPECT_EQ(tally.phases(), (std::vector<std::string>{"one", "two"}));

    const phase_sum one = sum_of(tally.turns(), "one");
    EXPECT_EQ(one.turns, 2);
    EXPECT_DOUBLE_EQ(one.first_s, 0.375);
    EXPECT_DOUBLE_EQ(one.reused_share(), 45);
    EXPECT_DOUBLE_EQ(one.extend_share(), 50);
    EXPECT_EQ(sum_of(tally.turns(), "").computed_tokens, 230);
    EXPECT_DOUBLE_EQ(sum_of(tally.turns(), "three").reused_share(), 0);
}

TEST(phases_tally, what_was_read_ahead_is_reused_by_the_turn_and_computed_all_the_same) {
    phases_tally tally;
    for (const char* phase : {"query_1", "query_2", "again_1", "verdict"})
        tally.on_event(
            {"phase_start", R"({"session_id":"s","phase":")" + std::string(phase) + R"("})"}, 0);
    EXPECT_EQ(tally.phases(), (std::vector<std::string>{"query", "again", "verdict"}));
    EXPECT_EQ(tally.sessions().size(), 4u);
    tally.on_event(turn("Ada", 100, 95, 10, "extend"), 1);
    sse_event later = turn("Ada", 200, 195, 10, "extend");
    later.data.insert(later.data.find("\"match"), R"("read_ahead_tokens":90,)");
    tally.on_event(later, 2);
    const phase_turn& second = tally.turns().back();
    EXPECT_EQ(second.computed_tokens, 95);
    EXPECT_EQ(second.reread_tokens, 5) << "110 were there, 105 were left as they were";
    const phase_sum all = sum_of(tally.turns(), "verdict");
    EXPECT_NEAR(all.known_share(), 100.0 * 200 / 300, 1e-9);
    EXPECT_NEAR(all.reused_share(), 100.0 * 290 / 300, 1e-9);
}

TEST(phases_tally, a_run_that_fails_is_no_measurement) {
    phases_tally tally;
    EXPECT_THROW(tally.on_event({"error", "{}"}, 0), server_error);
    EXPECT_THROW(tally.on_event({"run_stopped", "{}"}, 0), server_error);
    EXPECT_THROW(tally.on_event({"token", "no json"}, 0), server_error);
    tally.on_event({"phase_start", R"({"phase":"one"})"}, 0);
    EXPECT_THROW(tally.on_event({"turn_complete", "{}"}, 0), server_error);
}

TEST(routing_yaml, primes_every_expert_and_asks_five_of_them_twice) {
    const std::string yaml = routing_yaml(std::vector<std::string>(10, "Words."));
    std::size_t phases = 0;
    for (std::size_t at = yaml.find("- {name"); at != std::string::npos;
         at = yaml.find("- {name", at + 1))
        ++phases;
    EXPECT_EQ(phases, 20u);
    EXPECT_NE(yaml.find("{name: again_5, label: again, agents: [expert_5]"), std::string::npos);
    EXPECT_EQ(yaml.find("again_6"), std::string::npos);
}

}  // namespace
}  // namespace semantic::bench

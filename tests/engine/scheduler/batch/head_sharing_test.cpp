// SPDX-License-Identifier: Apache-2.0
// A beginning that several prompts share, step by step on the embedded model. The decisions alone:
// policy/shared_heads_test.cpp.

#include "engine/scheduler/batch/head_sharing.hpp"

#include <gtest/gtest.h>

#include "tests/engine/scheduler/bare_batch.hpp"

namespace semantic::engine {
namespace {

using tests::alone;
using tests::bare_batch;
using tests::endless;
using tests::notes;
using tests::run_options;

constexpr chunk_policy small_chunks{64, 256, 256, std::chrono::milliseconds(10'000)};
const run_options small_steps{.chunks = small_chunks};

std::string prompt_of(const std::string& head, int agent) {
    return head + "You are agent " + std::to_string(agent) + ". Count the pots.";
}

std::uint64_t computed(const bare_batch& running) { return running.probe_.tokens_prefilled.load(); }

TEST(head_sharing, a_head_of_five_is_read_once_and_no_answer_differs) {
    const std::string head = notes(60);
    bare_batch running(small_steps);
    std::vector<std::map<int, std::vector<token_id>>> expected;
    for (int i = 0; i < 5; ++i) {
        bare_batch other(small_steps);
        expected.push_back(alone(other, prompt_of(head, i), endless(4, 1)));
    }
    for (int i = 0; i < 5; ++i)
        running.add(static_cast<request_id>(i + 1), prompt_of(head, i), endless(4, 1));
    running.run_all();
    const int one = running.prompt_tokens(prompt_of(head, 0));
    const int head_tokens = running.prompt_tokens(head);
    ASSERT_GT(head_tokens, 1000);
    EXPECT_LE(computed(running), static_cast<std::uint64_t>(one + 4 * (one - head_tokens + 32)));
    for (int i = 0; i < 5; ++i) {
        const auto id = static_cast<request_id>(i + 1);
        EXPECT_EQ(running.tokens[id], expected[static_cast<std::size_t>(i)]) << i;
        EXPECT_EQ(running.usages[id].reused_tokens >= head_tokens - 32, i > 0) << i;
    }
}

TEST(head_sharing, a_request_that_comes_in_the_middle_waits_only_for_what_is_common) {
    const std::string head = notes(40);
    bare_batch running(small_steps);
    running.add(1, head + notes(60, 9), endless(4, 1));
    running.step();
    running.add(2, prompt_of(head, 2), endless(4, 1));
    const int common = running.prompt_tokens(head);
    int steps = 0;
    for (; !running.usages.contains(2) && steps < 100; ++steps) ASSERT_TRUE(running.step());
    EXPECT_LE(steps, common / 256 + 2) << "it begins when the head is there";
    EXPECT_GE(running.usages[2].reused_tokens, common - 32);
    EXPECT_TRUE(running.tokens[1].empty()) << "the other one still reads";
    running.run_all();
    EXPECT_EQ(running.ends[1] + running.ends[2], 2);
}

TEST(head_sharing, one_that_comes_late_takes_what_is_read_by_then) {
    const std::string head = notes(40);
    bare_batch running(small_steps);
    running.add(1, head + notes(60, 9), endless(4, 1));
    for (int i = 0; i < running.prompt_tokens(head) / 256 + 3; ++i) running.step();
    ASSERT_TRUE(running.tokens[1].empty());
    running.add(2, prompt_of(head, 2), endless(4, 1));
    running.step();
    ASSERT_TRUE(running.usages.contains(2));
    EXPECT_GE(running.usages[2].reused_tokens, running.prompt_tokens(head) - 32);
    running.run_all();
}

TEST(head_sharing, when_the_reader_is_cancelled_the_next_goes_on_from_what_it_has_read) {
    const std::string head = notes(60);
    bare_batch running(small_steps);
    const job_ptr reader = running.add(1, prompt_of(head, 1), endless(4, 1));
    running.add(2, prompt_of(head, 2), endless(4, 1));
    running.add(3, prompt_of(head, 3), endless(4, 1));
    for (int i = 0; i < 3; ++i) running.step();
    EXPECT_FALSE(running.usages.contains(2));
    reader->cancelled = true;
    const std::uint64_t before = computed(running);
    EXPECT_GE(before, 3 * 256u);
    running.run_all();
    EXPECT_EQ(running.finishes[1].why, stop_reason::cancelled);
    EXPECT_EQ(running.usages[2].reused_tokens, static_cast<int>(before));
    const int one = running.prompt_tokens(prompt_of(head, 2));
    EXPECT_GE(running.usages[3].reused_tokens, running.prompt_tokens(head) - 32);
    EXPECT_LE(computed(running), static_cast<std::uint64_t>(one + 64));
}

TEST(head_sharing, when_the_reader_fails_the_next_goes_on_from_what_it_has_read) {
    const std::string head = notes(60);
    bare_batch running(small_steps);
    // Its end cannot be delivered, as if its sink were broken.
    running.on_emit = [](const job& work, const generation_event& event) {
        if (work.id == 1 && std::holds_alternative<token_text>(event))
            throw std::runtime_error("broken");
    };
    running.add(1, head, endless(4, 1));
    running.add(2, prompt_of(head, 2), endless(4, 1));
    running.run_all();
    EXPECT_TRUE(running.failures.contains(1));
    EXPECT_TRUE(running.finishes.contains(2));
    EXPECT_GE(running.usages[2].reused_tokens, running.prompt_tokens(head) - 32);
}

TEST(head_sharing, a_retry_that_was_resolved_before_the_first_try_ended_has_what_that_read) {
    const std::string prompt = notes(60) + "Hello.";
    bare_batch running(small_steps);
    const job_ptr first = running.add(1, prompt, endless(4, 1));
    for (int i = 0; i < 4; ++i) running.step();
    first->cancelled = true;
    running.add(2, prompt, endless(4, 1));  // as resolved while a step of the first one runs
    running.step();
    ASSERT_TRUE(running.usages.contains(2));
    EXPECT_EQ(running.usages[2].reused_tokens, 4 * 256) << "all chunks that were read";
    running.run_all();
    EXPECT_EQ(running.tokens[2].size(), 1u);
}

TEST(head_sharing, tenants_share_nothing_and_do_not_wait_for_each_other) {
    const std::string head = notes(60);
    bare_batch running(small_steps);
    running.add(1, prompt_of(head, 1), endless(4, 1));
    generation_request other = endless(4, 1);
    other.tenant = running.tenant("another key");
    running.add(2, prompt_of(head, 2), other);
    running.step();
    EXPECT_TRUE(running.usages.contains(2));
    running.run_all();
    EXPECT_EQ(running.usages[2].reused_tokens, 0);
}

TEST(head_sharing, who_waits_for_a_head_is_told_once_and_for_how_long_about) {
    const std::string head = notes(100);
    bare_batch running(small_steps);
    running.add(1, prompt_of(head, 1), endless(4, 1));
    running.step();  // so that the cost of a chunk is known
    running.add(2, prompt_of(head, 2), endless(4, 1));
    running.step();
    ASSERT_TRUE(running.waits.contains(2));
    EXPECT_FALSE(running.waits.contains(1));
    EXPECT_EQ(running.waits[2].ahead, 1);
    EXPECT_GE(running.waits[2].estimate.count(), 1);
    EXPECT_LE(running.waits[2].estimate.count(), 60);
    running.waits.clear();
    running.run_all();
    EXPECT_TRUE(running.waits.empty());
}

std::uint64_t waits_counted(const bare_batch& running) {
    std::uint64_t count = 0;
    for (const auto& bucket : running.probe_.head_wait.buckets) count += bucket.load();
    return count;
}

TEST(head_sharing, waits_are_counted_once_each_when_they_are_over) {
    const std::string head = notes(60);
    bare_batch running(small_steps);
    for (request_id id : {1, 2, 3})
        running.add(id, prompt_of(head, static_cast<int>(id)), endless(4, 1));
    running.step();
    EXPECT_EQ(running.probe_.head_waiting.load(), 2);
    EXPECT_EQ(waits_counted(running), 0u) << "they still wait";
    running.step();
    EXPECT_EQ(running.probe_.head_waiting.load(), 2);
    running.run_all();
    EXPECT_EQ(running.probe_.head_waiting.load(), 0);
    EXPECT_EQ(waits_counted(running), 2u);
    EXPECT_GT(running.probe_.head_wait.sum_us.load(), 0u);
}

TEST(head_sharing, a_wait_is_over_when_its_request_is_cancelled) {
    const std::string head = notes(60);
    bare_batch running(small_steps);
    running.add(1, prompt_of(head, 1), endless(4, 1));
    const job_ptr waiting = running.add(2, prompt_of(head, 2), endless(4, 1));
    running.step();
    EXPECT_EQ(running.probe_.head_waiting.load(), 1);
    waiting->cancelled = true;
    running.step();
    EXPECT_EQ(running.probe_.head_waiting.load(), 0);
    EXPECT_EQ(waits_counted(running), 1u);
    running.run_all();
}

TEST(head_sharing, requests_that_share_nothing_count_no_wait) {
    bare_batch running(small_steps);
    running.add(1, notes(60) + "One.", endless(4, 1));
    running.add(2, "Another question.", endless(4, 1));
    for (int i = 0; i < 3; ++i) {
        running.step();
        EXPECT_EQ(running.probe_.head_waiting.load(), 0);
    }
    running.run_all();
    EXPECT_EQ(waits_counted(running), 0u);
}

TEST(head_sharing, those_that_wait_take_no_slot) {
    const std::string head = notes(60);
    run_options two = small_steps;
    two.max_batch = 2;
    bare_batch running(two);
    for (request_id id : {1, 2, 3})
        running.add(id, prompt_of(head, static_cast<int>(id)), endless(4, 1));
    running.add(4, "Another question.", endless(4, 1));
    running.step();
    EXPECT_TRUE(running.usages.contains(1) && running.usages.contains(4));
    EXPECT_FALSE(running.usages.contains(2) || running.usages.contains(3));
    running.run_all();
    EXPECT_EQ(running.finishes.size(), 4u);
}

TEST(head_sharing, a_preempted_reader_takes_up_what_others_have_read_since) {
    // The pool holds one of the two whole, so that the younger one gives way at some point.
    const std::string head = notes(60);
    run_options tight = small_steps;
    tight.pool_tokens = 4 * 1024;
    bare_batch running(tight), wide(small_steps);
    const int most = 4 * 1024 - running.prompt_tokens(prompt_of(head, 1)) - 600;
    running.add(1, prompt_of(head, 1), endless(most, 1));
    running.add(2, prompt_of(head, 2), endless(most, 2));
    running.run_all();
    EXPECT_EQ(running.finishes.size(), 2u);
    for (request_id id : {1, 2})
        EXPECT_EQ(running.tokens[id],
                  alone(wide, prompt_of(head, static_cast<int>(id)), endless(most, id)));
}

}  // namespace
}  // namespace semantic::engine

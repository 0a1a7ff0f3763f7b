// SPDX-License-Identifier: Apache-2.0
// Answers whose forms are costly run together with others: a form delays only its own answer.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/grammar/forms/gbnf.hpp"
#include "engine/scheduler/policy/form_share.hpp"
#include "tests/engine/scheduler/bare_batch.hpp"

namespace semantic::engine {
namespace {

using tests::bare_batch;
using tests::endless;
using tests::turn;

/// Very many places to look at for the first token and for each one more.
const std::string heavy_pattern = "((.{0,40}){0,20}(.*)?){0,9}";
const std::string ordinary_schema =
    R"({"type":"object","additionalProperties":false,"required":["name","tags"],"properties":{
        "name":{"type":"string"},"tags":{"type":"array","minItems":3,
        "items":{"enum":["red","green","blue"]}}}})";

class heavy_form : public testing::Test {
  protected:
    held_form form_of(const output_form& form) {
        generation_request request;
        request.form = form;
        auto made = forms_.compile(request);
        if (!made) throw std::runtime_error(made.error().what);
        return *std::move(made);
    }
    held_form pattern(const std::string& rules) {
        return form_of({.what = output_form::kind::pattern, .rules = rules});
    }
    held_form schema() {
        return form_of({.what = output_form::kind::json, .schema_json = ordinary_schema});
    }
    /// An answer of some tokens that `form` holds.
    static void add(bare_batch& runs, request_id id, const held_form& form, int tokens) {
        runs.add(id, turn("What is new?"), endless(tokens, id))->form = form;
    }

    const tokenizer words_ = *tokenizer::load(tests::model_folder);
    answer_grammars forms_{words_, "chatml"};
};

TEST_F(heavy_form, lets_every_other_answer_have_its_token_in_each_step) {
    bare_batch runs({});
    runs.add(1, turn("What is new?"), endless(400, 1));
    runs.step();
    add(runs, 2, pattern(heavy_pattern), 12);
    std::size_t steps = 0;
    for (; steps < 300 && runs.ends[2] == 0; ++steps) {
        const std::size_t had = runs.tokens[1][0].size();
        runs.step();
        ASSERT_EQ(runs.tokens[1][0].size(), had + 1);
    }
    EXPECT_GE(steps, runs.tokens[2][0].size() + 3) << "it has sat out steps";
}

TEST_F(heavy_form, comes_to_the_same_answer_alone_and_beside_others) {
    const held_form heavy = pattern("((.{0,12}){0,6}(.*)?){0,4}"), light = schema();
    bare_batch alone({}), crowd({});
    add(alone, 1, heavy, 12);
    alone.run_all();
    add(alone, 2, light, 60);
    alone.run_all();
    for (request_id id = 3; id <= 9; ++id) crowd.add(id, turn("Hello."), endless(100, id));
    add(crowd, 1, heavy, 12);
    add(crowd, 2, light, 60);
    crowd.run_all();
    ASSERT_TRUE(alone.finishes.contains(1) && alone.finishes.contains(2));
    EXPECT_EQ(crowd.tokens[1], alone.tokens[1]);
    EXPECT_EQ(crowd.tokens[2], alone.tokens[2]);
}

TEST_F(heavy_form, of_a_request_that_leaves_ends_with_it) {
    bare_batch runs({});
    runs.add(1, turn("What is new?"), endless(50, 1));
    add(runs, 2, pattern(heavy_pattern), 4);
    const job_ptr left = runs.add(3, turn("What is new?"), endless(4, 3));
    left->form = pattern(heavy_pattern);
    for (int step = 0; step < 2; ++step) runs.step();
    left->cancelled = true;
    runs.step();
    ASSERT_TRUE(runs.finishes.contains(3));
    EXPECT_EQ(runs.finishes[3].why, stop_reason::cancelled);
    EXPECT_EQ(runs.ends[2], 0) << "the other waits on";
}

TEST_F(heavy_form, that_is_given_up_fails_its_own_request_beside_others) {
    bare_batch runs({});
    runs.add(1, turn("What is new?"), endless(300, 1));
    grammar_builder out;
    const auto root =
        out.any_of({{read_gbnf(out, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"")}});
    held_form endless_ways = schema();  // for the vocabulary
    endless_ways.rules = std::make_shared<const grammar>(std::move(out).build(root));
    endless_ways.program = std::make_shared<const grammar_program>(
        endless_ways.rules, output_constraint::outlook_bytes);
    generation_request request = endless(200, 2);
    request.sampling.biases.push_back({words_.find("a"), 1000.0f});
    request.ending.ignores_end = true;
    runs.add(2, turn("What is new?"), request)->form = endless_ways;
    runs.run_all();
    EXPECT_EQ(runs.tokens[1][0].size(), 300u);
    ASSERT_TRUE(runs.failures.contains(2));
    EXPECT_EQ(runs.failures[2].kind, failure_kind::bad_request);
    EXPECT_EQ(runs.ends[2], 1);
}

TEST(form_share, is_a_part_of_the_pass_that_all_forms_have_together) {
    const auto share = [](int held, double seconds, int threads) {
        return form_share({.held = held, .threads = threads, .pass_seconds = seconds});
    };
    EXPECT_EQ(share(1, 0.016, 1), 40'000);  // an eighth of 16 ms
    EXPECT_EQ(share(4, 0.016, 1), 10'000);
    EXPECT_EQ(share(4, 0.016, 2), 20'000) << "two at a time";
    EXPECT_EQ(share(5, 0.016, 4), 20'000) << "one comes behind another";
    EXPECT_EQ(share(0, 0.016, 0), 40'000);
    EXPECT_EQ(share(1, 0.0, 1), 10'000) << "half a millisecond at least";
    EXPECT_EQ(share(1, 10.0, 1), 200'000) << "ten at most";
    EXPECT_EQ(share(1000, 0.016, 1), form_share_least);
    EXPECT_EQ(form_share({.held = 1, .is_alone = true}), 400'000);
}

}  // namespace
}  // namespace semantic::engine

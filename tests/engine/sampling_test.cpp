// SPDX-License-Identifier: Apache-2.0
// How answers are drawn, seen through the whole engine: seeds, several choices, scores, biases.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::long_paste;
using tests::options_in;
using tests::run;
using tests::transcript;

generation_request warm(const std::string& agent, const std::string& prompt, std::uint64_t seed,
                        int choices = 1, int max_tokens = 24) {
    generation_request request = ask(agent, chat_of({prompt}), max_tokens);
    request.sampling.temperature = 1.5f;
    request.sampling.seed = seed;
    request.choices = choices;
    return request;
}

TEST(sampling, the_same_seed_gives_the_same_text_whatever_else_runs) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto alone = run(*engine, warm("a", "Tell me a story.", 9));
    std::vector<std::shared_ptr<transcript>> others;
    for (int i = 0; i < 6; ++i) {
        others.push_back(std::make_shared<transcript>());
        engine->submit(warm("o" + std::to_string(i), long_paste(3 * i) + "Go on.",
                            static_cast<std::uint64_t>(i)),
                       others.back());
    }
    auto among = run(*engine, warm("b", "Tell me a story.", 9));
    for (auto& other : others) ASSERT_TRUE(other->wait());
    EXPECT_EQ(among->tokens, alone->tokens);
    EXPECT_NE(run(*engine, warm("c", "Tell me a story.", 10))->tokens, alone->tokens);
}

TEST(sampling, without_a_seed_answers_differ) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    std::set<std::vector<token_id>> answers;
    for (int i = 0; i < 4; ++i) {
        generation_request request = warm("a", "Tell me a story.", 0);
        request.sampling.seed.reset();
        answers.insert(run(*engine, request)->tokens);
    }
    EXPECT_GT(answers.size(), 1u);
}

TEST(sampling, several_choices_read_the_prompt_once_and_share_its_blocks) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    constexpr int choices = 8;
    const std::string prompt = long_paste(60) + "Tell me a story.";
    const std::uint64_t held_before = engine->pool().frames_held;
    std::atomic<std::uint64_t> held{0};
    auto sink = std::make_shared<transcript>();
    sink->on_event_hook = [&](const generation_event&) {
        held = std::max(held.load(), engine->pool().frames_held);
    };
    engine->submit(warm("a", prompt, 9, choices), sink);
    ASSERT_TRUE(sink->wait());
    ASSERT_TRUE(sink->finished);
    EXPECT_EQ(sink->ends, 1);
    EXPECT_EQ(sink->choices.size(), static_cast<std::size_t>(choices));
    ASSERT_EQ(sink->choices_finished.size(), static_cast<std::size_t>(choices));
    std::set<std::string> texts;
    for (const auto& [choice, text] : sink->choices) texts.insert(text);
    EXPECT_GE(texts.size(), 5u) << "each is drawn on its own";
    int output = 0;
    for (const choice_finished& one : sink->choices_finished) output += one.output_tokens;
    EXPECT_EQ(sink->finished->output_tokens, output);

    EXPECT_EQ(engine->probe().tokens_prefilled.load(),
              static_cast<std::uint64_t>(sink->usage.prompt_tokens));
    const int blocks = sink->usage.prompt_tokens / engine->info().block_tokens;
    ASSERT_GE(blocks, 4);
    // The whole blocks once, and of each choice no more than its own tail and what follows it.
    const int layers = engine->info().layers;
    EXPECT_LE(held - held_before, static_cast<std::uint64_t>((blocks + 1 + 2 * choices) * layers));

    // The first is what the request would have given alone, and the agent goes on from there.
    tests::temp_dir other;
    auto fresh = load(options_in(other.path()));
    EXPECT_EQ(run(*fresh, warm("a", prompt, 9))->tokens, sink->tokens);
    auto next = run(*engine, ask("a", chat_of({prompt, sink->text, "And then?"}), 4));
    EXPECT_GT(next->usage.reused_tokens, sink->usage.prompt_tokens);
}

TEST(sampling, more_choices_than_places_in_the_batch_come_out_the_same) {
    std::map<int, std::string> expected;
    for (int max_batch : {16, 2, 1}) {
        tests::temp_dir dir;
        engine_options options = options_in(dir.path());
        options.max_batch = max_batch;
        auto engine = load(options);
        auto other = std::make_shared<transcript>();
        engine->submit(warm("b", "Another story.", 1), other);
        auto said = run(*engine, warm("a", "Tell me a story.", 9, 7));
        ASSERT_TRUE(other->wait());
        ASSERT_TRUE(said->finished) << max_batch;
        if (expected.empty()) expected = said->choices;
        EXPECT_EQ(said->choices.size(), 7u);
        EXPECT_EQ(said->choices, expected) << max_batch;
        EXPECT_EQ(engine->probe().running.load(), 0);
    }
}

TEST(sampling, a_cancelled_request_ends_all_its_choices_at_once) {
    tests::temp_dir dir;
    engine_options options = options_in(dir.path());
    options.max_batch = 3;
    auto engine = load(options);
    auto sink = std::make_shared<transcript>();
    generation_request request = warm("a", "Tell me a story.", 9, 8, 100'000);
    request.stop_sequences = {};
    for (token_id stop = 0; stop < 4; ++stop) request.sampling.biases.push_back({stop, -100.0f});
    request_id id = engine->submit(request, sink);
    ASSERT_TRUE(sink->wait_for_tokens(3));
    engine->cancel(id);
    ASSERT_TRUE(sink->wait());
    ASSERT_TRUE(sink->finished);
    EXPECT_EQ(sink->finished->why, stop_reason::cancelled);
    EXPECT_GE(sink->finished->output_tokens, 3);
    EXPECT_EQ(sink->ends, 1);
    EXPECT_TRUE(run(*engine, ask("a", chat_of({"Hello."}), 4))->finished) << "the agent is free";
    EXPECT_EQ(engine->probe().running.load(), 0);
}

TEST(sampling, choices_of_a_request_for_no_tokens_are_all_empty) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto said = run(*engine, warm("a", "Tell me a story.", 9, 3, 0));
    ASSERT_TRUE(said->finished);
    EXPECT_EQ(said->choices_finished.size(), 3u);
    EXPECT_EQ(said->finished->output_tokens, 0);
}

TEST(sampling, scores_come_with_each_token_of_the_text_and_greedy_takes_the_likeliest) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = ask("a", chat_of({"My dog is called Biscuit."}));
    request.top_scores = 3;
    auto said = run(*engine, request);
    ASSERT_TRUE(said->finished);
    ASSERT_EQ(said->finished->why, stop_reason::end_turn);
    ASSERT_EQ(said->scores.size() + 1, said->tokens.size()) << "the token that ends the turn";
    std::string text;
    for (std::size_t i = 0; i < said->scores.size(); ++i) {
        const token_scores& scores = said->scores[i];
        EXPECT_EQ(scores.chosen.token, said->tokens[i]);
        text += scores.chosen.bytes;
        ASSERT_EQ(scores.top.size(), 3u);
        EXPECT_EQ(scores.top[0].token, scores.chosen.token);
        EXPECT_EQ(scores.top[0].log_probability, scores.chosen.log_probability);
        double mass = 0;
        for (const scored_token& one : scores.top) {
            EXPECT_FALSE(one.bytes.empty());
            mass += std::exp(static_cast<double>(one.log_probability));
        }
        EXPECT_LE(mass, 1.0 + 1e-6);
        EXPECT_GE(scores.top[0].log_probability, scores.top[1].log_probability);
    }
    EXPECT_EQ(text, said->text);
    EXPECT_TRUE(run(*engine, ask("b", chat_of({"Hello."})))->scores.empty()) << "not asked for";
}

TEST(sampling, a_bias_can_force_a_token_and_one_that_the_model_does_not_have_is_refused) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const int vocabulary = engine->info().vocabulary;
    generation_request request = ask("a", chat_of({"Hello."}), 5);
    request.sampling.biases = {{vocabulary - 1, 100.0f}};
    EXPECT_EQ(run(*engine, request)->tokens, std::vector<token_id>(5, vocabulary - 1));
    for (token_id beyond : {vocabulary, -1}) {
        request.sampling.biases = {{beyond, 1.0f}};
        auto said = run(*engine, request);
        ASSERT_TRUE(said->failed);
        EXPECT_EQ(said->failed->kind, failure_kind::bad_request);
        EXPECT_EQ(said->failed->what, "token " + std::to_string(beyond) +
                                          " cannot be biased: this model's tokens are 0 to " +
                                          std::to_string(vocabulary - 1));
    }
}

TEST(sampling, no_token_ends_an_answer_that_must_be_longer) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const auto chat = chat_of({"My dog is called Biscuit."});
    auto free = run(*engine, ask("a", chat));
    ASSERT_EQ(free->finished->why, stop_reason::end_turn);
    const int length = free->finished->output_tokens;  // with the token that ends it
    for (int min_tokens : {length - 1, length, length + 7}) {
        generation_request request = ask("b" + std::to_string(min_tokens), chat);
        request.ending.min_tokens = min_tokens;
        auto held = run(*engine, request);
        ASSERT_TRUE(held->finished);
        EXPECT_GE(held->finished->output_tokens, min_tokens + 1) << "the end is one more";
        EXPECT_EQ(held->tokens == free->tokens, min_tokens < length);
    }
}

TEST(sampling, an_answer_that_ignores_its_end_goes_on_to_its_limit) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = ask("a", chat_of({"My dog is called Biscuit."}), 40);
    request.ending.ignores_end = true;
    auto said = run(*engine, request);
    ASSERT_TRUE(said->finished);
    EXPECT_EQ(said->finished->why, stop_reason::max_tokens);
    EXPECT_EQ(said->finished->output_tokens, 40);
    request.agent = *storage::agent_id::parse("b");
    request.ending.stop_tokens = {said->tokens[5]};
    auto stopped = run(*engine, request);
    EXPECT_EQ(stopped->finished->why, stop_reason::stop_sequence)
        << "the request's own stop tokens end it all the same";
}

TEST(sampling, a_stop_token_of_the_request_ends_the_answer_and_is_no_part_of_it) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const auto chat = chat_of({"My dog is called Biscuit."});
    auto whole = run(*engine, ask("a", chat));
    ASSERT_GT(whole->tokens.size(), 4u);
    generation_request request = ask("b", chat);
    request.ending.stop_tokens = {whole->tokens[3]};
    auto cut = run(*engine, request);
    ASSERT_TRUE(cut->finished);
    EXPECT_EQ(cut->finished->why, stop_reason::stop_sequence);
    EXPECT_EQ(cut->finished->stop_sequence, "");
    EXPECT_EQ(cut->finished->output_tokens, 4);
    EXPECT_TRUE(whole->text.starts_with(cut->text)) << cut->text;
    EXPECT_LT(cut->text.size(), whole->text.size());
    request.ending.stop_tokens = {engine->info().vocabulary};
    auto refused = run(*engine, request);
    ASSERT_TRUE(refused->failed);
    EXPECT_EQ(refused->failed->kind, failure_kind::bad_request);
    EXPECT_EQ(refused->failed->at_fault, request_part::stop_tokens);
}

TEST(sampling, a_json_answer_that_is_whole_ends_though_it_should_be_longer) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = ask("a", chat_of({"Yes or no?"}), 60);
    request.form.what = output_form::kind::json;
    request.form.schema_json = R"({"type":"object","properties":{"a":{"const":1}},)"
                               R"("required":["a"],"additionalProperties":false})";
    request.ending.min_tokens = 50;
    auto said = run(*engine, request);
    ASSERT_TRUE(said->finished) << said->failed->what;
    EXPECT_EQ(said->finished->why, stop_reason::end_turn);
    EXPECT_EQ(said->text.substr(0, 4), "{\"a\"") << said->text;
}

TEST(sampling, a_form_that_no_answer_can_be_held_to_is_refused_with_the_part_at_fault) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    generation_request request = ask("a", chat_of({"Yes or no?"}));
    request.form.what = output_form::kind::json;
    request.form.schema_json = R"({"$ref":"#/nowhere"})";
    auto form = run(*engine, request);
    ASSERT_TRUE(form->failed);
    EXPECT_EQ(form->failed->kind, failure_kind::bad_request);
    EXPECT_EQ(form->failed->at_fault, request_part::form);
    request.form = {};
    request.form.what = output_form::kind::calls;
    request.chat.tools = {{"f", "", R"({"$ref":"#/nowhere"})", true}};
    auto tools = run(*engine, request);
    ASSERT_TRUE(tools->failed);
    EXPECT_EQ(tools->failed->at_fault, request_part::tools);
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Answers that a request begins, and answers that a limit cut: what is said next, and how much of
// the memory the next turns reuse.

#include <gtest/gtest.h>

#include "engine/text/tokenizer/tokenizer.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/real_models.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;
using semantic::tests::transcript;

const char* const told = "My dog is called Biscuit.";
const char* const begun = "I will remember that";

generation_request going_on(const std::string& agent, std::vector<std::string> turns,
                            int max_tokens = 48) {
    generation_request request = ask(agent, chat_of(turns), max_tokens);
    request.chat.end = prompt_end::inside_answer;
    return request;
}

/// The tokens in an agent's memory after an answer.
int stored_by(const transcript& answer) {
    return answer.usage.prompt_tokens + answer.finished->output_tokens - 1;
}

class open_answers : public ::testing::TestWithParam<const char*> {
  protected:
    open_answers() {
        engine_options options = options_in(dir_.path());
        options.chat_template = GetParam();
        engine_ = load(options);
    }
    temp_dir dir_;
    std::unique_ptr<engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(by, open_answers, ::testing::Values("auto", "jinja"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(open_answers, go_on_as_the_model_would_have_gone_on) {
    const auto whole = run(*engine_, ask("a", chat_of({told})));
    ASSERT_TRUE(whole->text.starts_with(begun)) << whole->text;
    const auto rest = run(*engine_, going_on("b", {told, begun}));
    ASSERT_TRUE(rest->finished) << rest->failed->what;
    EXPECT_EQ(begun + rest->text, whole->text);
    EXPECT_EQ(rest->finished->why, stop_reason::end_turn);
}

TEST_P(open_answers, are_remembered_whole_for_the_next_turn_and_for_what_is_appended) {
    const auto rest = run(*engine_, going_on("a", {told, begun}));
    ASSERT_TRUE(rest->finished);
    const std::string question = "What is my dog called?";
    const auto next = run(*engine_, ask("a", chat_of({told, begun + rest->text, question})));
    EXPECT_EQ(next->usage.reused_tokens, stored_by(*rest));
    EXPECT_NE(next->text.find("Biscuit"), std::string::npos) << next->text;
    generation_request more = ask("a", chat_of({"And my cat?"}));
    more.append = true;
    const auto appended = run(*engine_, more);
    ASSERT_TRUE(appended->finished) << appended->failed->what;
    EXPECT_EQ(appended->usage.reused_tokens, stored_by(*next));
}

TEST_P(open_answers, take_up_an_answer_that_a_limit_cut) {
    const auto whole = run(*engine_, ask("w", chat_of({told})));
    const auto cut = run(*engine_, ask("a", chat_of({told}), 4));
    ASSERT_EQ(cut->finished->why, stop_reason::max_tokens);
    const auto rest = run(*engine_, going_on("a", {told, cut->text}));
    ASSERT_TRUE(rest->finished) << rest->failed->what;
    EXPECT_EQ(cut->text + rest->text, whole->text);
    EXPECT_EQ(rest->usage.reused_tokens, stored_by(*cut)) << "all that was run of it";
    const auto next =
        run(*engine_, ask("a", chat_of({told, cut->text + rest->text, "What is my dog called?"})));
    EXPECT_EQ(next->usage.reused_tokens, stored_by(*rest));
}

TEST_P(open_answers, tell_what_stands_there_already) {
    auto sink = std::make_shared<transcript>();
    std::string there = "nothing was said";
    sink->on_event_hook = [&](const generation_event& event) {
        if (const auto* start = std::get_if<admitted>(&event)) there = start->begun;
    };
    engine_->submit(going_on("a", {told, begun}), sink);
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(there, begun);
    engine_->submit(ask("b", chat_of({told})), sink);
    run(*engine_, ask("b", chat_of({told})));
    EXPECT_EQ(there, "");
}

TEST_P(open_answers, append_to_what_is_remembered) {
    const auto first = run(*engine_, ask("a", chat_of({told})));
    generation_request more = going_on("a", {"What is my dog called?", "Your dog is"});
    more.append = true;
    const auto answer = run(*engine_, more);
    ASSERT_TRUE(answer->finished) << answer->failed->what;
    EXPECT_EQ(answer->usage.reused_tokens, stored_by(*first));
    EXPECT_NE(answer->text.find("Biscuit"), std::string::npos) << answer->text;
}

TEST_P(open_answers, begin_by_themselves_where_nothing_begins_them) {
    generation_request request = ask("a", chat_of({told}));
    request.chat.end = prompt_end::messages;
    const auto answer = run(*engine_, request);
    ASSERT_TRUE(answer->finished) << answer->failed->what;
    const auto usual = run(*engine_, ask("b", chat_of({told})));
    EXPECT_LT(answer->usage.prompt_tokens, usual->usage.prompt_tokens);
}

TEST_P(open_answers, with_a_form_are_refused) {
    generation_request request = going_on("a", {told, begun});
    request.form.what = output_form::kind::json;
    EXPECT_EQ(run(*engine_, request)->failed->what,
              "an answer that must have a form has to begin anew");
}

TEST_P(open_answers, cut_behind_control_tokens_are_gone_on_from_whole) {
    const tokenizer words = *tokenizer::load(options_in("").model_directory);
    generation_request forced = ask("a", chat_of({told}), 6);
    // Not one that ends a turn: the model writes it inside its answer.
    forced.sampling.biases.push_back({words.find("<|im_start|>"), 100.0f});
    const auto odd = run(*engine_, forced);
    ASSERT_EQ(odd->finished->why, stop_reason::max_tokens);
    ASSERT_NE(odd->text.find("<|im_start|>"), std::string::npos) << odd->text;
    std::vector<std::string> turns{told, odd->text, "What is my dog called?"};
    const auto next = run(*engine_, ask("a", chat_of(turns)));
    EXPECT_EQ(next->usage.reused_tokens, stored_by(*odd));
    turns.push_back(next->text);
    turns.push_back("Sure?");
    const auto after = run(*engine_, ask("a", chat_of(turns)));
    EXPECT_EQ(after->usage.reused_tokens, stored_by(*next)) << "and at the turn behind it";
}

/// Ten turns of one agent through the model's own template, each of which reuses all before it.
void expect_ten_turns_reused(engine_options options) {
    options.chat_template = "jinja";
    const auto engine = load(options);
    std::vector<std::string> turns;
    int stored = 0;
    for (int i = 0; i < 10; ++i) {
        turns.push_back("My friend number " + std::to_string(i) + " is called Anna.");
        const auto answer = run(*engine, ask("a", chat_of(turns), 24));
        ASSERT_TRUE(answer->finished) << answer->failed->what;
        EXPECT_EQ(answer->usage.reused_tokens, stored) << "turn " << i;
        stored = stored_by(*answer);
        turns.push_back(answer->text);
    }
}

TEST(own_template_memory, ten_turns_reuse_all_that_was_said) {
    temp_dir dir;
    expect_ten_turns_reused(options_in(dir.path()));
}

TEST(own_template_memory, ten_turns_of_published_models_reuse_all_that_was_said) {
    if (semantic::tests::real_models().empty()) GTEST_SKIP() << semantic::tests::no_real_models;
    for (const char* name : {"smollm2-135m", "qwen2.5-coder-0.5b"}) {
        temp_dir dir;
        engine_options options = options_in(dir.path());
        options.model_directory = semantic::tests::real_model(name);
        if (options.model_directory.empty()) continue;
        SCOPED_TRACE(name);
        expect_ten_turns_reused(options);
    }
}

}  // namespace
}  // namespace semantic::engine

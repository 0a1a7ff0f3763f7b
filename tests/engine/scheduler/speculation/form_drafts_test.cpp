// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/form_drafts.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/scheduler/speculation/drafting.hpp"

namespace semantic::engine {
namespace {

using tokens = std::vector<token_id>;

const tokenizer& words() {
    static const tokenizer made =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

std::shared_ptr<const grammar_program> program_of(const std::string& schema) {
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = schema};
    auto made = answer_grammars(words(), "chatml").compile(request);
    if (!made) throw std::runtime_error(made.error().what);
    return made->program;
}

std::string text_of(const tokens& all) {
    std::string text;
    for (const token_id each : all) text += words().bytes(each);
    return text;
}

const std::string person = R"({"type":"object","additionalProperties":false,
    "required":["first_name","years"],"properties":{"first_name":{"type":"string"},
    "years":{"type":"integer"}}})";
const std::string people = R"({"type":"array","items":)" + person + "}";

/// Follows an answer as a sequence does, a token a step.
class followed {
  public:
    explicit followed(const std::string& schema, const tokens& prompt = {})
        : drafts_(program_of(schema), words(), prompt.size()), said_(prompt) {}
    void say(const std::string& text) {
        for (const token_id token : words().encode(text)) {
            said_.push_back(token);
            drafts_.catch_up(said_);
        }
    }
    draft_guess guess(int most) {
        drafts_.catch_up(said_);
        return drafts_.guess(said_, most);
    }
    std::string guess_text(int most = 15) { return text_of(guess(most).tokens); }
    form_drafts& drafts() { return drafts_; }

  private:
    form_drafts drafts_;
    tokens said_;
};

TEST(form_drafts, say_what_a_schema_leaves_up_to_the_next_choice) {
    followed answer(person);
    answer.say("{\"f");
    EXPECT_EQ(answer.guess_text(), "irst_name\":");
    answer.say("irst_name\":");
    EXPECT_EQ(answer.guess_text(), "") << "a blank or the string may come";
}

TEST(form_drafts, begin_behind_the_prompt) {
    followed answer(person, words().encode("What is {\"years"));
    answer.say("{\"f");
    EXPECT_EQ(answer.guess_text(), "irst_name\":");
}

TEST(form_drafts, repeat_what_the_answer_did_at_a_choice_before) {
    followed answer(people);
    for (const char* name : {"Ann", "Bob", "Cid"})
        answer.say(std::string(name == std::string("Ann") ? "[" : ",") + " {\"first_name\": \"" +
                   name + "\", \"years\": 7}");
    EXPECT_EQ(answer.guess_text(), ", {\"first_name\": \"") << "up to what only the answer knows";
}

TEST(form_drafts, do_at_a_new_choice_what_the_answer_did_after_the_same_token) {
    followed answer(R"({"type":"object","additionalProperties":false,"required":["ab","cd","ef"],
        "properties":{"ab":{"type":"string"},"cd":{"type":"string"},"ef":{"type":"string"}}})");
    answer.say("{\"ab\": \"x\", \"");
    EXPECT_EQ(answer.guess_text(), "cd\": \"");
}

TEST(form_drafts, leave_off_where_the_answer_did_this_and_that) {
    followed answer(R"({"type":"array","items":{"enum":["aa","bb"]}})");
    answer.say("[\"aa\", \"bb\", \"aa\", \"");
    EXPECT_EQ(answer.guess_text(), "");
    answer.say("a");
    EXPECT_EQ(answer.guess_text().substr(0, 2), "a\"") << "of one name the rest is sure";
}

TEST(form_drafts, have_as_many_tokens_as_are_wanted_and_not_one_more) {
    followed answer(R"({"const":"the quick brown fox jumps over the lazy dog, again and again"})");
    answer.say("\"t");
    const auto all = answer.guess(64).tokens;
    ASSERT_GT(all.size(), 4u);
    EXPECT_EQ(answer.guess(4).tokens, tokens(all.begin(), all.begin() + 4));
    EXPECT_TRUE(answer.guess(0).tokens.empty());
}

TEST(form_drafts, go_on_behind_the_bound_of_one_way) {
    const std::string name(form_drafts::way_bytes_max + 1, 'x');
    followed answer(R"({"const":")" + name + "\"}");
    answer.say("\"");
    EXPECT_EQ(answer.guess_text(1000), name + '"');
}

TEST(form_drafts, know_how_much_of_another_guess_the_form_lets_through) {
    followed answer(person);
    answer.say("{\"");
    answer.guess(4);
    const tokens right = words().encode("first_name\": \"A\"");
    EXPECT_EQ(answer.drafts().count_allowed(right), right.size());
    const tokens wrong = words().encode("first_name\": 12");
    const std::size_t allowed = answer.drafts().count_allowed(wrong);
    EXPECT_EQ(text_of({wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(allowed)}),
              "first_name\": ");
}

TEST(form_drafts, of_a_form_that_takes_too_much_there_are_none) {
    generation_request request;
    request.form = {.what = output_form::kind::pattern, .rules = "((.{0,40}){0,9}(.*)?){0,9}"};
    const auto heavy = answer_grammars(words(), "chatml").compile(request);
    ASSERT_TRUE(heavy) << heavy.error().what;
    form_drafts drafts(heavy->program, words(), 0);
    tokens said;
    for (int i = 0; i < 300; ++i) {
        said.push_back(words().encode("a b")[static_cast<std::size_t>(i % 2)]);
        drafts.catch_up(said);
        drafts.guess(said, 4);
        ASSERT_LE(drafts.memory_bytes(), 2 * form_drafts::bytes_max);
    }
}

// An answer of many tokens that was preempted is taken in again step by step.
TEST(form_drafts, take_in_so_much_of_an_answer_a_step_and_go_on_in_the_next) {
    form_drafts drafts(program_of(R"({"type":"string"})"), words(), 0);
    tokens said = words().encode("\"");
    const token_id letter = words().encode("a").front();
    said.insert(said.end(), 2 * static_cast<std::size_t>(form_drafts::places_a_step), letter);
    int steps = 1;
    for (drafts.catch_up(said); steps < 100; ++steps, drafts.catch_up(said)) {
        const tokens line_break = words().encode("\n");  // which no string may have
        if (drafts.count_allowed(line_break) == 0) break;
    }
    EXPECT_GT(steps, 2);
    EXPECT_LT(steps, 20);
}

TEST(drafting, cuts_a_repetition_where_the_form_forbids_it) {
    tokens said = words().encode("{\"first_name\": 12, ");
    const std::size_t begin = said.size();
    const tokens answer = words().encode("{\"first_name\":");
    said.insert(said.end(), answer.begin(), answer.end());
    drafting held(64, std::make_unique<form_drafts>(program_of(person), words(), begin));
    drafting free(64, nullptr);
    EXPECT_GT(free.look(said, 8).tokens, held.look(said, 8).tokens);
}

TEST(drafting, runs_the_guess_that_promises_most) {
    const tokens said = words().encode("{\"f");
    drafting open(64, std::make_unique<form_drafts>(program_of(person), words(), 0));
    const draft_view seen = open.look(said, 15);
    ASSERT_GT(seen.tokens, 1);
    open.begin(said.back(), 1);
    EXPECT_EQ(open.end().origin, draft_origin::form);
}

}  // namespace
}  // namespace semantic::engine

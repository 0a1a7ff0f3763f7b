// SPDX-License-Identifier: Apache-2.0
// Answers whose form is given up when much has been written already, through the whole engine.

#include <gtest/gtest.h>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::load;
using tests::options_in;
using tests::run;

token_id token_of(const std::string& text) {
    const std::string model = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";
    return tokenizer::load(model)->find(text);
}

/// Writes nothing but "a", and does not end.
generation_request endless(output_form form) {
    generation_request request = ask("a", chat_of({"Hello."}), 200);
    request.form = std::move(form);
    request.sampling.biases.push_back({token_of("a"), 1000.0f});
    request.ending.ignores_end = true;
    return request;
}

// Two ways at each character, and each remembers which.
TEST(given_up_form, in_mid_answer_is_the_requests_fault_and_says_so) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto said = run(*engine, endless({.what = output_form::kind::grammar,
                                      .rules = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | "
                                               "\"\""}));
    EXPECT_GE(said->tokens.size(), 8u) << "it begins as asked";
    ASSERT_TRUE(said->failed);
    EXPECT_EQ(said->failed->kind, failure_kind::bad_request);
    EXPECT_EQ(said->failed->what, "the grammar: it describes more than an answer can be held to");
    EXPECT_EQ(said->ends, 1);
    EXPECT_TRUE(run(*engine, ask("a", chat_of({"Hello."}), 4))->finished) << "others go on";
}

TEST(given_up_form, before_the_first_token_is_refused_before_anything_is_read) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    auto said = run(*engine, endless({.what = output_form::kind::grammar,
                                      .rules = "root ::= ((\"a\"?){1000}){400}"}));
    ASSERT_TRUE(said->failed);
    EXPECT_EQ(said->failed->kind, failure_kind::bad_request);
    EXPECT_EQ(said->failed->what, "the grammar: it describes more than an answer can be held to");
    EXPECT_EQ(said->usage.prompt_tokens, 0) << "it was never admitted";
    EXPECT_EQ(engine->probe().tokens_prefilled.load(), 0u);
}

TEST(given_up_form, of_a_schema_names_the_field) {
    generation_request request;
    request.form = {.what = output_form::kind::json};
    const failed told = failure_of(grammar_too_large(), request.form);
    EXPECT_EQ(told.kind, failure_kind::bad_request);
    EXPECT_EQ(told.at_fault, request_part::form);
    EXPECT_EQ(told.what, "the schema: it describes more than an answer can be held to");
    const failed other = failure_of(std::runtime_error("no memory"), request.form);
    EXPECT_EQ(other.kind, failure_kind::internal) << "which is nobody's form";
}

}  // namespace
}  // namespace semantic::engine

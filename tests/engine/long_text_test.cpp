// SPDX-License-Identifier: Apache-2.0
// Texts that are too long whatever their tokens are.

#include <gtest/gtest.h>

#include <chrono>

#include "engine/engine.hpp"
#include "engine/prompt/prompt_tokens.hpp"
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

// The largest token is so short that the text's length says enough.
TEST(long_text, a_text_that_cannot_fit_by_its_bytes_is_refused_before_it_is_tokenised) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const int context = engine->info().context_tokens_max;
    const auto before = std::chrono::steady_clock::now();
    auto said = run(*engine, ask("a", chat_of({std::string(30'000'000, 'x')})));
    ASSERT_TRUE(said->failed);
    EXPECT_EQ(said->failed->kind, failure_kind::too_large);
    const prompt_excess excess = said->failed->excess.value();
    EXPECT_TRUE(excess.is_lower_bound);
    EXPECT_EQ(excess.context_tokens, context);
    EXPECT_GE(excess.tokens, context);
    EXPECT_LT(excess.tokens, 30'000'000);
    EXPECT_NE(said->failed->what.find("at least " + std::to_string(excess.tokens)),
              std::string::npos)
        << said->failed->what;
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
    EXPECT_TRUE(run(*engine, ask("a", chat_of({"Hello."})))->finished);
}

// Goal: one token too many by the bytes is refused so, and one fewer is tokenised.
TEST(text_bound, is_met_by_the_first_byte_of_the_token_that_is_one_too_many) {
    auto words = tokenizer::load(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny");
    ASSERT_TRUE(words);
    const std::size_t widest = words->bytes_per_token_max();
    ASSERT_GT(widest, 0u);
    const text_bound bound(*words, 100);
    EXPECT_EQ(bound.excess_of(std::string(99 * widest, 'x')), 0);
    EXPECT_EQ(bound.excess_of(std::string(99 * widest + 1, 'x')), 100);
}

// Goal: a text that its bytes do not refuse, but its tokens do, is not tokenised to its end.
TEST(text_bound, a_text_far_longer_than_a_conversation_is_counted_until_it_is_too_long) {
    auto words = tokenizer::load(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny");
    ASSERT_TRUE(words);
    const int context = 300'000;
    const text_bound bound(*words, context);
    std::string text;
    while (text.size() < 3'000'000) text += "a b c d ";
    ASSERT_LT(text.size() / words->bytes_per_token_max(), static_cast<std::size_t>(context));
    const std::int64_t excess = bound.excess_of(text);
    EXPECT_GE(excess, context);
    EXPECT_LT(excess, context + 64 * 1024) << "and no further";
    EXPECT_EQ(bound.excess_of(std::string_view(text).substr(0, 1 << 20)), 0) << "is tokenised";

    conversation chat = chat_of({text});
    EXPECT_EQ(bound.excess_of(chat), excess);
    chat.messages[0].parts = {thinking_part{text}, tool_call_part{"c", "f", text}};
    EXPECT_EQ(bound.excess_of(chat), 0) << "a template may leave these out";
    chat.messages[0].parts = {text_part{std::string(3'000'000, ' ')}};
    EXPECT_EQ(bound.excess_of(chat), 0) << "and the blanks around a text";
    chat.messages[0].parts = {tool_result_part{"c", text}};
    EXPECT_EQ(bound.excess_of(chat), excess);
}

TEST(long_text, of_a_prompt_that_cannot_fit_no_more_is_counted_than_that) {
    tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const int context = engine->info().context_tokens_max;
    EXPECT_GT(engine->info().bytes_per_token_max, 0u);
    const auto before = std::chrono::steady_clock::now();
    const auto counted = engine->count_tokens(chat_of({std::string(30'000'000, 'x')}), {});
    ASSERT_TRUE(counted);
    EXPECT_GE(*counted, context);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
    const auto exact = engine->count_tokens(chat_of({"Hello."}), {});
    EXPECT_EQ(exact.value(), run(*engine, ask("a", chat_of({"Hello."})))->usage.prompt_tokens);
}

}  // namespace
}  // namespace semantic::engine

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

// Each token stands for so many bytes at most that the text's length says enough.
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

}  // namespace
}  // namespace semantic::engine

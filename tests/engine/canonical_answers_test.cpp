// SPDX-License-Identifier: Apache-2.0
// Answers are equal cached and uncached, also where a model has said something in other tokens than
// those of its text.

#include <gtest/gtest.h>

#include "engine/text/tokenizer/tokenizer.hpp"
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
using tests::temp_dir;

/// Has the model say one token again and again.
generation_request made_to_say(const std::string& agent, conversation chat, token_id token,
                               int count) {
    generation_request request = ask(agent, std::move(chat), count);
    request.sampling.biases.push_back({token, 100.0f});
    return request;
}

TEST(canonical_answers, are_those_of_an_engine_without_memories) {
    const auto words = *tokenizer::load(options_in("").model_directory);
    const std::string question = long_paste(12);
    const token_id letter = words.find("o");
    ASSERT_GE(letter, 0);
    const int said_tokens = 9;
    ASSERT_NE(words.encode("ooooooooo"), std::vector<token_id>(said_tokens, letter));

    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const auto first = run(*engine, made_to_say("a", chat_of({question}), letter, said_tokens));
    ASSERT_EQ(first->text, "ooooooooo");
    const conversation chat = chat_of({question, first->text, "What was that?"});

    temp_dir other_dir;
    auto alone = load(options_in(other_dir.path()));
    const auto expected = run(*alone, ask("b", chat));
    for (const char* agent : {"b", "c"}) {
        const auto said = run(*engine, ask(agent, chat));
        EXPECT_EQ(said->tokens, expected->tokens) << agent;
        EXPECT_EQ(said->usage.prompt_tokens, expected->usage.prompt_tokens) << agent;
        EXPECT_GT(said->usage.reused_tokens, first->usage.prompt_tokens - 4) << agent;
    }
    // The agent itself continues after its own words.
    const auto own = run(*engine, ask("a", chat));
    EXPECT_EQ(own->usage.reused_tokens, first->usage.prompt_tokens + said_tokens - 1);
}

// Names of blocks are made of token ids: the same text in other tokens is another block.
TEST(canonical_answers, are_so_behind_blocks_of_other_tokens_and_a_restart) {
    const auto words = *tokenizer::load(options_in("").model_directory);
    const token_id letter = words.find("o");
    const int said_tokens = 400;  // fills blocks of its own
    temp_dir dir, other_dir;
    std::string said_text;
    int asked = 0;
    {
        auto engine = load(options_in(dir.path()));
        const auto first =
            run(*engine, made_to_say("a", chat_of({long_paste(4)}), letter, said_tokens));
        said_text = first->text;
        asked = first->usage.prompt_tokens;
    }
    const conversation chat = chat_of({long_paste(4), said_text, "What was that?"});
    auto alone = load(options_in(other_dir.path()));
    auto engine = load(options_in(dir.path()));
    const auto expected = run(*alone, ask("b", chat));
    const auto said = run(*engine, ask("b", chat));
    EXPECT_EQ(said->tokens, expected->tokens);
    EXPECT_LE(said->usage.reused_tokens, asked);
    EXPECT_EQ(run(*engine, ask("a", chat))->usage.reused_tokens, asked + said_tokens - 1);
}

}  // namespace
}  // namespace semantic::engine

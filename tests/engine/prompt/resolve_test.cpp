// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/resolve.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::nobody_is_busy;

class resolver_ : public tests::stored_prompts {};

TEST_F(resolver_, a_cold_prompt_is_tokenised_whole) {
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    auto prompt = prompts.resolve(ask("a", chat_of({"Hello."})), nobody_is_busy);
    ASSERT_TRUE(prompt);
    EXPECT_EQ(prompt->reuse_tokens, 0);
    EXPECT_EQ(prompt->source, nullptr);
    EXPECT_EQ(prompt->tokens.size(), prompt->token_ends.size());
    EXPECT_EQ(prompt->token_ends.back(), prompt->text.size());
    EXPECT_EQ(*prompts.count_tokens(chat_of({"Hello."})), static_cast<int>(prompt->tokens.size()));
}

TEST_F(resolver_, a_token_beyond_the_vocabulary_is_refused_and_named) {
    std::vector<token_id> ids = words_.encode("Hello.");
    int beyond = *std::max_element(ids.begin(), ids.end());
    resolver prompts(words_, chat_, *store_, beyond);
    auto prompt = prompts.resolve(ask("a", chat_of({"Hello."})), nobody_is_busy);
    ASSERT_FALSE(prompt);
    EXPECT_EQ(prompt.error().code, storage::errc::bad_value);
    EXPECT_NE(prompt.error().what.find(words_.bytes(beyond)), std::string::npos);
}

TEST_F(resolver_, what_a_request_says_about_thinking_reaches_the_template) {
    chat_ = *chat_template::make("qwen3");
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    generation_request request = ask("a", chat_of({"Hello."}));
    EXPECT_FALSE(prompts.resolve(request, nobody_is_busy)->text.ends_with("</think>\n\n"));
    request.thinking.enabled = false;
    EXPECT_TRUE(prompts.resolve(request, nobody_is_busy)->text.ends_with("</think>\n\n"));
    EXPECT_GT(*prompts.count_tokens(request.chat, request.thinking),
              *prompts.count_tokens(request.chat));
    chat_ = *chat_template::make("harmony");
    request.thinking.effort = "high";
    EXPECT_NE(prompts.resolve(request, nobody_is_busy)->text.find("Reasoning: high\n"),
              std::string::npos);
}

TEST_F(resolver_, what_a_template_has_no_place_for_is_named_with_the_prompt) {
    chat_ = *chat_template::make("gemma3");
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    generation_request request = ask("a", chat_of({"Hello."}));
    EXPECT_TRUE(prompts.resolve(request, nobody_is_busy)->template_fit.empty());
    request.chat.messages.push_back({role::assistant, {text_part{"Hi."}}});
    request.chat.messages.push_back({role::system, {text_part{"Be brief."}}});
    EXPECT_EQ(prompts.resolve(request, nobody_is_busy)->template_fit,
              std::vector<std::string>{"later_system_text_in_user_turn"});
    EXPECT_TRUE(prompts.count_tokens(request.chat));
}

TEST_F(resolver_, a_memory_without_a_cut_before_the_parting_is_too_short) {
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    auto whole = prompts.resolve(ask("x", chat_of({"Hello there."})), nobody_is_busy);
    storage::agent_state state{*storage::agent_id::parse("a")};
    state.text = whole->text;
    state.tokens = {whole->tokens.back()};  // one token that spells everything
    state.token_ends = {static_cast<std::uint32_t>(whole->text.size())};
    put(std::move(state));
    auto prompt = prompts.resolve(ask("a", chat_of({"Hello you."})), nobody_is_busy);
    ASSERT_TRUE(prompt);
    EXPECT_EQ(prompt->reuse_tokens, 0);
    EXPECT_EQ(prompt->why, miss_reason::too_short);
}

// Texts of many agents; the one that shares most with the prompt must be its source, though many
// more share nearly as much.
TEST_F(resolver_, the_longest_prefix_of_all_agents_is_found_among_many_that_are_nearly_as_long) {
    resolver prompts(words_, chat_, *store_, words_.vocabulary());
    std::string words = "one two three four five six seven eight nine ten ";
    for (int i = 0; i < 60; ++i) {
        std::string text = words.substr(0, words.size() - static_cast<std::size_t>(i % 7)) + "x" +
                           std::to_string(i);
        remember(prompts, "near" + std::to_string(i), chat_of({text}));
    }
    remember(prompts, "best", chat_of({words + "eleven twelve and so on"}));
    auto prompt =
        prompts.resolve(ask("", chat_of({words + "eleven twelve but not on"})), nobody_is_busy);
    ASSERT_TRUE(prompt);
    ASSERT_NE(prompt->source, nullptr);
    EXPECT_EQ(prompt->source->id.str(), "best");
    std::string reused(prompt->text, 0,
                       prompt->token_ends[static_cast<std::size_t>(prompt->reuse_tokens) - 1]);
    EXPECT_NE(reused.find("twelve"), std::string::npos) << reused;
}

}  // namespace
}  // namespace semantic::engine

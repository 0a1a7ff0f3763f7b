// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/token_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "tests/engine/text/golden_files.hpp"

namespace semantic::engine {
namespace {

using storage::errc;

class token_text : public testing::TestWithParam<const char*> {
  protected:
    static tokenizer load() {
        const std::string name = GetParam();
        auto made = tokenizer::load(source_path(name == "semantic-tiny"
                                                    ? "etc/models/semantic-tiny"
                                                    : "tests/golden/tokenizers/" + name));
        if (!made) throw std::runtime_error(made.error().what);
        return std::move(*made);
    }
    static storage::agent_state tokenised(const tokenizer& words, std::string text) {
        storage::agent_state state{storage::agent_id::parse("a").value()};
        state.tokens = words.encode(text, state.token_ends);
        state.text = std::move(text);
        return state;
    }
    static std::vector<std::string> awkward_texts() {
        std::vector<std::string> texts;
        const auto cases =
            read_json("tests/golden/tokenizers/" + std::string(GetParam()) + "/cases.json");
        for (const auto& each : cases.as_array()) texts.push_back(text_at(each, "text"));
        return texts;
    }
};

TEST_P(token_text, what_the_tokenizer_makes_of_any_text_stands_for_it) {
    const tokenizer words = load();
    const std::vector<std::string> texts = awkward_texts();
    std::mt19937 random(5);
    for (int round = 0; round < 400; ++round) {
        std::string text;
        for (std::size_t parts = 1 + random() % 4; parts > 0; --parts)
            text += texts[random() % texts.size()] +
                    (random() % 4 == 0 ? "e\xCC\x81 \xEF\xAC\x81\xFF<|im_end|> " : "");
        const auto checked =
            check_token_text(words, words.vocabulary(), tokenised(words, std::move(text)));
        EXPECT_TRUE(checked) << checked.error().what;
    }
}

TEST_P(token_text, the_first_token_that_stands_for_something_else_is_named) {
    const tokenizer words = load();
    const auto right = tokenised(words, "The cat sat on the mat, and the dog sat on the cat.");
    const token_id other = words.encode("Q").back();
    for (std::size_t at = 0; at < right.tokens.size(); ++at) {
        storage::agent_state wrong = right;
        if (wrong.tokens[at] == other) continue;
        wrong.tokens[at] = other;
        const auto checked = check_token_text(words, words.vocabulary(), wrong);
        ASSERT_FALSE(checked) << at;
        EXPECT_EQ(checked.error().code, errc::corrupt);
        EXPECT_NE(checked.error().what.find(" token " + std::to_string(at) + ","),
                  std::string::npos)
            << checked.error().what;
    }
}

TEST_P(token_text, tokens_that_no_tokenizer_would_choose_stand_for_their_bytes) {
    const tokenizer words = load();
    const std::string text = "The cat";
    storage::agent_state state{storage::agent_id::parse("a").value()};
    for (const char each : text) {  // as a model may sample them
        const std::vector<token_id> ids = words.encode(std::string("a") + each);
        if (words.bytes(ids.back()) != std::string_view(&each, 1)) continue;
        state.tokens.push_back(ids.back());
        state.text += each;
        state.token_ends.push_back(static_cast<std::uint32_t>(state.text.size()));
    }
    EXPECT_GT(state.tokens.size(), 3u);
    EXPECT_TRUE(check_token_text(words, words.vocabulary(), state));
}

INSTANTIATE_TEST_SUITE_P(golden, token_text,
                         testing::Values("semantic-tiny", "llama3", "qwen2", "smollm2", "gemma3",
                                         "o200k", "deepseek2"),
                         [](const auto& each) {
                             std::string name = each.param;
                             std::erase(name, '-');
                             return name;
                         });

TEST(token_text_rules, text_behind_the_last_token_is_refused) {
    const auto words = tokenizer::load(source_path("etc/models/semantic-tiny"));
    ASSERT_TRUE(words);
    storage::agent_state state{storage::agent_id::parse("a").value()};
    state.text = "My cat";
    state.tokens = words->encode(state.text, state.token_ends);
    EXPECT_TRUE(check_token_text(*words, words->vocabulary(), state));
    state.text += "s";
    EXPECT_EQ(check_token_text(*words, words->vocabulary(), state).error().code, errc::corrupt);
}

TEST(token_text_rules, a_token_that_the_model_does_not_know_is_refused) {
    const auto words = tokenizer::load(source_path("etc/models/semantic-tiny"));
    ASSERT_TRUE(words);
    storage::agent_state state{storage::agent_id::parse("a").value()};
    state.text = "My cat";
    state.tokens = words->encode(state.text, state.token_ends);
    const token_id largest = std::ranges::max(state.tokens);
    EXPECT_EQ(check_token_text(*words, largest, state).error().code, errc::bad_value);
    EXPECT_TRUE(check_token_text(*words, largest + 1, state));
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prompt_tokens.hpp"

#include <gtest/gtest.h>

#include "engine/prompt/prompt_notes.hpp"

namespace semantic::engine {
namespace {

const tokenizer& words() {
    static const tokenizer loaded =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return loaded;
}

/// What a model may sample for the text: two tokens at least for each word.
std::shared_ptr<storage::agent_state> sampled(const std::string& text, std::size_t canonical) {
    auto state = std::make_shared<storage::agent_state>(
        storage::agent_state{*storage::agent_id::parse("a")});
    for (std::size_t at = 0; at < text.size(); at += 2) {
        std::vector<std::uint32_t> ends;
        for (token_id token : words().encode(text.substr(at, 2), ends))
            state->tokens.push_back(token);
        for (std::uint32_t end : ends)
            state->token_ends.push_back(static_cast<std::uint32_t>(at) + end);
    }
    state->text = text;
    state->notes[canonical_note] = std::to_string(canonical);
    state->private_salt.bytes[0] = 7;
    return state;
}

prompt_source own(std::shared_ptr<storage::agent_state> state, match_kind kind,
                  std::size_t tokens) {
    prompt_source source{state, {kind, tokens}, true};
    source.match.bytes = tokens == 0 ? 0 : state->token_ends[tokens - 1];
    source.match.common_bytes = source.match.bytes;
    return source;
}

resolved_prompt tokenised(const prompt_source& source, std::string text) {
    resolved_prompt prompt{*storage::agent_id::parse("b"), std::move(text)};
    tokenise(words(), source, prompt);
    EXPECT_EQ(prompt.tokens.size(), prompt.token_ends.size());
    EXPECT_EQ(prompt.token_ends.back(), prompt.text.size());
    std::string spelled;
    for (token_id token : prompt.tokens) spelled += words().bytes(token);
    EXPECT_EQ(spelled, prompt.text);
    return prompt;
}

constexpr const char* said = "The nornes dwell under the ash.";

TEST(prompt_tokens, a_memory_goes_on_in_the_tokens_that_were_sampled) {
    const auto state = sampled(said, 3);
    ASSERT_NE(state->tokens, words().encode(said));
    const std::size_t all = state->tokens.size();
    const auto prompt = tokenised(own(state, match_kind::extend, all), said + std::string(" Yes."));
    EXPECT_TRUE(std::equal(state->tokens.begin(), state->tokens.end(), prompt.tokens.begin()));
    EXPECT_EQ(std::vector<token_id>(prompt.tokens.begin() + static_cast<std::ptrdiff_t>(all),
                                    prompt.tokens.end()),
              words().encode(" Yes."));
    EXPECT_EQ(prompt.reuse_tokens, static_cast<int>(all));
    EXPECT_EQ(prompt.notes.at(canonical_note), "3") << "what was sampled may be spelt otherwise";
}

TEST(prompt_tokens, the_token_that_an_exact_prompt_runs_again_is_the_sampled_one_too) {
    const auto state = sampled(said, 3);
    const std::size_t all = state->tokens.size();
    const auto prompt = tokenised(own(state, match_kind::exact, all - 1), said);
    EXPECT_EQ(prompt.tokens, state->tokens);
    EXPECT_EQ(prompt.reuse_tokens, static_cast<int>(all) - 1);
}

TEST(prompt_tokens, a_prompt_that_parts_within_the_canonical_tokens_is_canonical_to_its_end) {
    const auto state = sampled(said, 5);
    const auto count = [&](std::size_t reused) {
        const prompt_source source = own(state, match_kind::diverge, reused);
        const std::string kept = state->text.substr(0, source.match.bytes);
        const resolved_prompt prompt =
            tokenised(source, kept + " Something that was never said before, and more of it.");
        EXPECT_GT(prompt.tokens.size(), 7u);
        return prompt.notes.at(canonical_note) == std::to_string(prompt.tokens.size())
                   ? "all"
                   : prompt.notes.at(canonical_note);
    };
    EXPECT_EQ(count(0), "all");
    EXPECT_EQ(count(5), "all");
    EXPECT_EQ(count(6), "5");
}

TEST(prompt_tokens, another_agents_memory_gives_blocks_and_the_search_the_tokens) {
    const auto state = sampled(said, 0);
    prompt_source source = own(state, match_kind::diverge, 1);
    source.as_sampled = false;
    tokenised_text whole;
    const std::string text = said + std::string(" Yes.");
    whole.tokens = words().encode(text, whole.token_ends);
    source.prompt = std::make_shared<const tokenised_text>(whole);
    const auto prompt = tokenised(source, text);
    EXPECT_EQ(prompt.tokens, whole.tokens);
    EXPECT_EQ(prompt.source, state);
    EXPECT_EQ(prompt.private_salt, state->private_salt);
    EXPECT_EQ(prompt.notes.at(canonical_note), std::to_string(whole.tokens.size()));
}

TEST(prompt_tokens, a_memory_of_which_nothing_is_reused_leaves_no_trace) {
    const auto prompt = tokenised(own(sampled(said, 3), match_kind::miss, 0), "Hello.");
    EXPECT_EQ(prompt.tokens, words().encode("Hello."));
    EXPECT_EQ(prompt.source, nullptr);
    EXPECT_EQ(prompt.private_salt, storage::block_hash{}) << "its blocks may be shared";
}

TEST(prompt_tokens, turns_are_those_that_the_prompt_has_as_they_were_sampled) {
    const chat_template chatml = *chat_template::make("chatml");
    const auto state = sampled(said, 0);
    const std::vector<sampled_turn> turns{{0, 4}, {4, 10}};
    state->notes[turns_note] = encode_turns(turns);
    prompt_source source = own(state, match_kind::diverge, 1);
    source.match.bytes = 9;
    source.match.common_bytes = 10;
    resolved_prompt prompt{*storage::agent_id::parse("b"), "no turn begins here"};
    mark_turns(chatml, source, prompt_end::answer_begins, prompt);
    EXPECT_EQ(prompt.turns, turns) << "of the agent itself: all that is common";
    EXPECT_EQ(prompt.turn_begin, prompt.text.size());
    source.as_sampled = false;
    prompt.text += std::string(chatml.turn_begin()) + "x" + std::string(chatml.turn_begin());
    mark_turns(chatml, source, prompt_end::answer_begins, prompt);
    EXPECT_EQ(prompt.turns, std::vector<sampled_turn>{turns[0]}) << "of another: what is reused";
    EXPECT_EQ(prompt.turn_begin, prompt.text.size() - chatml.turn_begin().size());
}

TEST(prompt_tokens, the_last_row_of_the_embedding_is_the_last_token_there_is) {
    resolved_prompt prompt{*storage::agent_id::parse("b"), "Hi"};
    EXPECT_EQ(check_tokens(words(), 100, prompt).error().what, "the prompt has no tokens");
    prompt.tokens = {1, 99};
    EXPECT_TRUE(check_tokens(words(), 100, prompt));
    prompt.tokens = {1, 100};
    const auto refused = check_tokens(words(), 100, prompt);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find(words().bytes(100)), std::string::npos);
}

// --- places that prompts part at ---

/// A prompt whose `texts` are content, and nothing else is.
resolved_prompt rendered(const std::string& text, const std::vector<std::string>& texts) {
    resolved_prompt prompt{*storage::agent_id::parse("a"), text};
    std::size_t at = 0;
    for (const std::string& each : texts) {
        at = text.find(each, at);
        prompt.content.push_back({at, at + each.size()});
        at += each.size();
    }
    prompt.tokens = words().encode(text, prompt.token_ends, prompt.content);
    prompt.turn_begin = text.rfind("<|im_start|>assistant");
    return prompt;
}

/// The text of the first `place` tokens.
std::string before(const resolved_prompt& prompt, int place) {
    return prompt.text.substr(
        0, place == 0 ? 0 : prompt.token_ends[static_cast<std::size_t>(place) - 1]);
}

message said_by(role from, const std::string& text) { return {from, {text_part{text}}}; }

TEST(find_places, are_behind_control_tokens_before_messages_and_before_the_answer) {
    const std::string system = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>";
    const std::string first = system +
                              "user\n  Who are you?<|im_end|>\n<|im_start|>assistant\nI am "
                              "here.<|im_end|>\n<|im_start|>";
    const std::string second = first + "user\nWhere?<|im_end|>\n";
    const auto prompt = rendered(second + "<|im_start|>assistant\n",
                                 {"Be kind.", "Who are you?", "I am here.", "Where?"});
    conversation chat{"Be kind.",
                      {said_by(role::user, "  Who are you?"),
                       said_by(role::assistant, "I am here."), said_by(role::user, "Where?")},
                      {}};
    const prompt_places places = find_places(chat, prompt, words());
    EXPECT_EQ(before(prompt, places.root), system);
    ASSERT_EQ(places.messages.size(), 2u);
    EXPECT_EQ(before(prompt, places.messages[0]), system);
    EXPECT_EQ(before(prompt, places.messages[1]), first);
    EXPECT_EQ(before(prompt, places.generation), second);
}

TEST(find_places, of_the_latest_two_messages_of_a_long_history) {
    std::string text;
    std::vector<std::string> texts;
    conversation chat;
    for (int i = 0; i < 9; ++i) {
        texts.push_back("Question " + std::to_string(i));
        text += "<|im_start|>user\n" + texts.back() + "<|im_end|>\n";
        chat.messages.push_back(said_by(role::user, texts.back()));
    }
    const auto prompt = rendered(text + "<|im_start|>assistant\n", texts);
    const prompt_places places = find_places(chat, prompt, words());
    ASSERT_EQ(places.messages.size(), 2u);
    EXPECT_TRUE(before(prompt, places.messages[0]).ends_with("Question 6<|im_end|>\n<|im_start|>"));
    EXPECT_TRUE(before(prompt, places.messages[1]).ends_with("Question 7<|im_end|>\n<|im_start|>"));
}

TEST(find_places, are_none_where_nothing_is_found) {
    const auto prompt = rendered("The nornes dwell under the ash.", {});
    conversation chat{"", {said_by(role::user, "What is not there"), said_by(role::user, "")}, {}};
    resolved_prompt raw = prompt;
    raw.turn_begin = raw.text.size();
    const prompt_places places = find_places(chat, raw, words());
    EXPECT_EQ(places.root, 0);
    EXPECT_TRUE(places.messages.empty());
    EXPECT_EQ(places.generation, 0);
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// What another agent gets of a memory whose tokens are not those of its text: nothing from there
// on. Its prompt's tokens are those of a resolver that knows no memory at all.

#include <gtest/gtest.h>

#include <random>

#include "engine/prompt/prompt_notes.hpp"
#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::nobody_is_busy;

bool all_are_busy(const storage::agent_id&) { return true; }

class shared_tokens : public tests::stored_prompts {
  protected:
    resolved_prompt resolve(const std::string& agent, const conversation& chat) const {
        return *prompts_.resolve(ask(agent, chat), nobody_is_busy);
    }
    /// The text's tokens as a model may sample them: one for each byte.
    std::vector<token_id> by_bytes(const std::string& text) const {
        std::vector<token_id> tokens;
        for (char byte : text)
            for (token_id id = 0; id < words_.vocabulary(); ++id)
                if (words_.bytes(id) == std::string_view(&byte, 1)) {
                    tokens.push_back(id);
                    break;
                }
        EXPECT_EQ(tokens.size(), text.size());
        return tokens;
    }
    /// Stores what is left when the model has answered the prompt with these tokens.
    storage::agent_id answered(resolved_prompt prompt, const std::vector<token_id>& answer) {
        storage::agent_state state{.id = prompt.agent};
        std::vector<sampled_turn> turns = prompt.turns;
        state.tokens = prompt.tokens;
        state.token_ends = prompt.token_ends;
        state.text = prompt.text;
        for (token_id token : answer) {
            state.tokens.push_back(token);
            state.text += words_.bytes(token);
            state.token_ends.push_back(static_cast<std::uint32_t>(state.text.size()));
        }
        turns.push_back({static_cast<std::uint32_t>(prompt.turn_begin),
                         static_cast<std::uint32_t>(state.text.size())});
        state.notes = prompt.notes;
        state.notes[turns_note] = encode_turns(turns);
        put(std::move(state));
        return prompt.agent;
    }
    std::shared_ptr<const storage::agent_state> memory(const storage::agent_id& id) const {
        return store_->find(id);
    }
    /// Expects the prompt of an agent without earlier turns.
    void expect_as_if_alone(const resolved_prompt& prompt, const conversation& chat) const {
        EXPECT_EQ(prompt.text, *chat_.render(chat, {}));
        EXPECT_EQ(prompt.tokens, words_.encode(prompt.text));
    }

    resolver prompts_{words_, chat_, *store_, words_.vocabulary()};
};

TEST_F(shared_tokens, an_answer_spelt_with_other_tokens_is_inherited_by_nobody) {
    const std::string answer = "The answer is nornes.";
    const resolved_prompt first = resolve("a", chat_of({"Hello."}));
    const auto sampled = by_bytes(answer);
    ASSERT_NE(sampled, words_.encode(answer));
    const auto a = memory(answered(first, sampled));
    const conversation chat = chat_of({"Hello.", answer, "And now?"});

    const resolved_prompt own = resolve("a", chat);
    EXPECT_EQ(own.reuse_tokens, static_cast<int>(a->tokens.size())) << "the agent's own it stays";
    for (const char* stranger : {"b", ""}) {
        const resolved_prompt other = resolve(stranger, chat);
        expect_as_if_alone(other, chat);
        EXPECT_LE(other.reuse_tokens, static_cast<int>(first.tokens.size())) << stranger;
        EXPECT_GT(other.reuse_tokens, static_cast<int>(first.tokens.size()) - 4) << stranger;
    }
}

TEST_F(shared_tokens, a_fork_has_all_that_it_was_forked_from) {
    const auto a = answered(resolve("a", chat_of({"Hello."})), by_bytes("nornes"));
    ASSERT_TRUE(store_->fork(a, *storage::agent_id::parse("b")));
    const conversation chat = chat_of({"Hello.", "nornes", "And now?"});
    EXPECT_EQ(resolve("b", chat).reuse_tokens, static_cast<int>(memory(a)->tokens.size()));
    generation_request sub = ask("c", chat);
    sub.parent = a;
    EXPECT_EQ(prompts_.resolve(sub, nobody_is_busy)->reuse_tokens,
              static_cast<int>(memory(a)->tokens.size()))
        << "a sub-agent names its parent";
}

TEST_F(shared_tokens, what_was_read_anew_is_shared_with_the_next) {
    answered(resolve("a", chat_of({"Hello."})), by_bytes("nornes"));
    const conversation chat = chat_of({"Hello.", "nornes", "And now?"});
    const resolved_prompt b = resolve("b", chat);
    answered(b, words_.encode("Well."));
    const resolved_prompt c = resolve("c", chat);
    expect_as_if_alone(c, chat);
    EXPECT_GT(c.reuse_tokens, b.reuse_tokens);
    EXPECT_GE(c.reuse_tokens, static_cast<int>(b.tokens.size()) - 4);
}

TEST_F(shared_tokens, an_answer_in_its_texts_own_tokens_is_shared) {
    const resolved_prompt first = resolve("a", chat_of({"Hello."}));
    answered(first, words_.encode("Good day."));
    const conversation chat = chat_of({"Hello.", "Good day.", "And now?"});
    const resolved_prompt other = resolve("b", chat);
    expect_as_if_alone(other, chat);
    EXPECT_GT(other.reuse_tokens, static_cast<int>(first.tokens.size()));
}

TEST_F(shared_tokens, half_a_character_comes_back_whole_to_its_agent_alone) {
    const auto a = answered(resolve("a", chat_of({"Hello."})), by_bytes("caf\xc3"));
    const conversation chat = chat_of({"Hello.", "caf\ufffd", "And now?"});
    const resolved_prompt own = resolve("a", chat);
    EXPECT_NE(own.text.find("caf\xc3<"), std::string::npos);
    EXPECT_EQ(own.reuse_tokens, static_cast<int>(memory(a)->tokens.size()));
    expect_as_if_alone(resolve("b", chat), chat);
    expect_as_if_alone(resolve("", chat), chat);
}

TEST_F(shared_tokens, a_turn_in_its_clients_words_stays_in_them_for_other_agents) {
    conversation chat = chat_of({"What is the weather?", "", "And now?"});
    chat.tools = {{"find", "", "{}"}};
    chat.messages[1].parts = {tool_call_part{"1", "find", R"({"a":1})"}};
    conversation question = chat;
    question.messages.resize(1);
    const std::string call =
        "<tool_call>\n{\"name\":  \"find\", \"arguments\": {\"a\":  1}}\n</tool_call>";
    const auto a = answered(resolve("a", question), words_.encode(call));
    EXPECT_EQ(resolve("a", chat).reuse_tokens, static_cast<int>(memory(a)->tokens.size()));
    expect_as_if_alone(resolve("b", chat), chat);
}

TEST_F(shared_tokens, an_anonymous_conversation_keeps_what_it_said_and_its_branches_do_not) {
    const auto id = answered(resolve("", chat_of({"Hello."})), by_bytes("nornes"));
    const conversation next = chat_of({"Hello.", "nornes", "And now?"});
    const resolved_prompt turn = resolve("", next);
    EXPECT_EQ(turn.agent, id);
    EXPECT_EQ(turn.reuse_tokens, static_cast<int>(memory(id)->tokens.size()));
    const resolved_prompt branch = *prompts_.resolve(ask("", next), all_are_busy);
    EXPECT_NE(branch.agent, id);
    expect_as_if_alone(branch, next);
}

TEST_F(shared_tokens, a_memory_of_former_times_says_nothing_of_its_tokens_and_is_compared) {
    const resolved_prompt first = resolve("a", chat_of({"Hello."}));
    storage::agent_state state = *memory(answered(first, by_bytes("nornes")));
    state.notes.erase(canonical_note);
    put(std::move(state));
    const conversation chat = chat_of({"Hello.", "nornes", "And now?"});
    const resolved_prompt other = resolve("b", chat);
    expect_as_if_alone(other, chat);
    EXPECT_GE(other.reuse_tokens, static_cast<int>(first.tokens.size()) - 4);
}

TEST_F(shared_tokens, a_memory_that_ends_inside_a_word_is_not_gone_on_from_by_others) {
    const resolved_prompt first = resolve("a", chat_of({"Hello."}));
    answered(first, words_.encode("Good morn"));
    const conversation chat = chat_of({"Hello.", "Good mornings to you.", "And now?"});
    expect_as_if_alone(resolve("b", chat), chat);
}

// Whatever agents said, in whatever tokens, and wherever others part from it or go on.
TEST_F(shared_tokens, whatever_others_said_a_new_agents_prompt_is_tokenised_as_if_alone) {
    std::mt19937 random(20261123);
    const std::vector<std::string> phrases{"Hello.",
                                           "nornes",
                                           " two  spaces ",
                                           "1234567",
                                           "don't",
                                           "Tab\tand\n\nlines",
                                           "caf\u00e9",
                                           "\u4f60\u597d",
                                           "aaaaaaaaaaaa",
                                           "{\"a\": [1, 2.50]}",
                                           "I'll see   you\n",
                                           "\U0001F600!"};
    const auto phrase = [&] {
        std::string text = phrases[random() % phrases.size()];
        if (random() % 2) text += phrases[random() % phrases.size()];
        return text;
    };
    // Some bytes at a time, so that few of the tokens are canonical.
    const auto sampled = [&](const std::string& text) {
        std::vector<token_id> tokens;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t bytes = 1 + random() % 6;
            std::string piece = text.substr(at, bytes);
            at += piece.size();
            for (token_id id : random() % 2 ? words_.encode(piece) : by_bytes(piece))
                tokens.push_back(id);
        }
        return random() % 3 ? tokens : words_.encode(text);
    };
    std::vector<std::vector<std::string>> talks;
    int reused = 0;
    for (int i = 0; i < 150; ++i) {
        std::vector<std::string> turns{phrase()};
        if (!talks.empty() && random() % 4) {
            turns = talks[random() % talks.size()];
            if (random() % 2) turns.back() = turns.back().substr(0, turns.back().size() / 2) + "x";
            turns.push_back(phrase());
            if (turns.size() % 2 == 0) turns.push_back(phrase());
        }
        const std::string id = "agent" + std::to_string(i);
        const conversation chat = chat_of(turns);
        const resolved_prompt prompt = resolve(id, chat);
        expect_as_if_alone(prompt, chat);
        reused += prompt.reuse_tokens;
        const std::string said = phrase();
        answered(prompt, sampled(said));
        turns.push_back(said);
        talks.push_back(turns);
        // The agent's own next turn, which others may share in their turn.
        turns.push_back(phrase());
        if (random() % 2) answered(resolve(id, chat_of(turns)), sampled(phrase()));
        if (random() % 3 == 0) {
            storage::agent_state state = *memory(*storage::agent_id::parse(id));
            state.notes.erase(canonical_note);
            put(std::move(state));
        }
    }
    EXPECT_GT(reused, 1000) << "agents still share";
}

}  // namespace
}  // namespace semantic::engine

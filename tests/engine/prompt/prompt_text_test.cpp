// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prompt_text.hpp"

#include <gtest/gtest.h>

#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/turn_replay.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::chat_of;

const tokenizer& words() {
    static const tokenizer loaded =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return loaded;
}

chat_template family(const char* name) { return *chat_template::make(name); }

/// A memory with a token for each byte.
storage::agent_state memory_of(std::string text, std::vector<storage::message_end> messages = {}) {
    storage::agent_state state{*storage::agent_id::parse("a")};
    for (std::size_t i = 0; i < text.size(); ++i) {
        state.tokens.push_back(text[i]);
        state.token_ends.push_back(static_cast<std::uint32_t>(i + 1));
    }
    state.text = std::move(text);
    state.messages = std::move(messages);
    return state;
}

generation_request appended(std::string text) {
    generation_request request;
    request.append = true;
    request.text = std::move(text);
    return request;
}

std::string text_after(const storage::agent_state& own, const char* text = "|new") {
    return prompt_text(words(), family("chatml"), appended(text), &own, {})->bytes();
}

TEST(prompt_text, what_is_appended_takes_the_place_of_an_answer_that_was_cut_off) {
    EXPECT_EQ(text_after(memory_of("abcdef", {{"m1", 2}, {"m2", 4}})), "abcd|new");
    EXPECT_EQ(text_after(memory_of("abcdef", {{"m1", 6}})), "abcdef|new");
    EXPECT_EQ(text_after(memory_of("abcdef")), "abcdef|new") << "it was never answered";
}

TEST(prompt_text, bytes_that_were_sampled_and_have_no_kv_are_part_of_the_conversation) {
    EXPECT_EQ(text_after(memory_of("abcdef", {{"m1", 2}, {"m2", 4, "<end>"}})), "abcd<end>|new");
    EXPECT_EQ(text_after(memory_of("abcdef", {{"m1", 0, "Hi"}})), "Hi|new");
}

TEST(prompt_text, a_copy_goes_on_behind_the_answer_that_its_note_tells_of) {
    const auto noted = [](std::string note, std::vector<storage::message_end> messages = {}) {
        storage::agent_state own = memory_of("abcdef", std::move(messages));
        own.notes[last_answer_note] = std::move(note);
        return text_after(own);
    };
    EXPECT_EQ(noted("2 6 gh"), "abcdefgh|new");
    EXPECT_EQ(noted("2 4 "), "abcd|new") << "what came behind was cut off";
    EXPECT_EQ(noted("0 0 1 2"), "1 2|new");
    EXPECT_EQ(noted("2 6 gh", {{"m1", 4, "x"}}), "abcdx|new") << "a name's end is the newer one";
}

TEST(prompt_text, what_is_appended_stands_behind_a_message_that_was_only_read) {
    const auto noted = [](std::string note) {
        storage::agent_state own = memory_of("abcdef", {{"m1", 2}});
        own.notes[last_answer_note] = "1 2 ";
        own.notes[open_message_note] = std::move(note);
        return text_after(own);
    };
    EXPECT_EQ(noted("6"), "abcdef|new");
    EXPECT_EQ(noted("4"), "abcd|new") << "the answer behind it was cut off";
    for (const char* none : {"", "0", "7", "-1", "4 ", "x", "99999999999999999999"})
        EXPECT_EQ(noted(none), "ab|new") << none;
    storage::agent_state own = memory_of("<|im_start|>user\nHi");
    own.notes[open_message_note] = std::to_string(own.tokens.size());
    generation_request more;
    more.append = true;
    more.chat = chat_of({"Who?"});
    EXPECT_EQ(prompt_text(words(), family("chatml"), more, &own, {})->bytes(),
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
              "<|im_start|>assistant\n");
}

TEST(prompt_text, a_note_of_an_answer_that_cannot_be_is_as_none) {
    storage::agent_state own = memory_of("abcdef");
    for (const char* note : {"", "1", "1 2", "1 7 x", "7 6 ", "-1 2 x", "1 99999999999999999999 x",
                             "99999999999999999999 2 x", "one 2 x", "1,2 x"}) {
        own.notes[last_answer_note] = note;
        EXPECT_EQ(text_after(own), "abcdef|new") << note;
    }
    own.notes[last_answer_note] = "1 2 " + std::string(storage::message_rest_bytes_max + 1, 'x');
    EXPECT_EQ(text_after(own), "abcdef|new") << "one byte too many";
    own.notes[last_answer_note].pop_back();
    EXPECT_EQ(text_after(own).size(), 2 + storage::message_rest_bytes_max + 4);
}

TEST(prompt_text, raw_text_begins_with_the_familys_first_token_once) {
    const chat_template llama = family("llama3");
    ASSERT_FALSE(llama.bos().empty());
    const storage::agent_state empty = memory_of("");
    for (const storage::agent_state* own :
         {static_cast<const storage::agent_state*>(nullptr), &empty}) {
        EXPECT_EQ(prompt_text(words(), llama, appended("Hi."), own, {})->bytes(),
                  llama.bos() + "Hi.");
        EXPECT_EQ(prompt_text(words(), llama, appended(llama.bos() + "Hi."), own, {})->bytes(),
                  llama.bos() + "Hi.");
    }
    const storage::agent_state own = memory_of("abc");
    EXPECT_EQ(prompt_text(words(), llama, appended("Hi."), &own, {})->bytes(), "abcHi.")
        << "it stands in front";
}

TEST(prompt_text, appended_messages_make_the_prompt_of_the_whole_conversation) {
    const chat_template chatml = family("chatml");
    const std::string first = *chatml.render(chat_of({"One."}), {}) + "Two.";
    const std::string second = *chatml.render(chat_of({"One.", "Two.", "Three."}), {}) + "Four.";
    const storage::agent_state own =
        memory_of(second + " and cut of", {{"m1", static_cast<std::uint32_t>(first.size())},
                                           {"m2", static_cast<std::uint32_t>(second.size())}});
    generation_request request;
    request.append = true;
    request.chat = chat_of({"Five."});
    EXPECT_EQ(prompt_text(words(), chatml, request, &own, {})->bytes(),
              *chatml.render(chat_of({"One.", "Two.", "Three.", "Four.", "Five."}), {}));
}

/// The request's prompt where the model wrote `answer` to "One."; empty: nothing to replay.
std::string replayed(const std::string& answer, const std::string& note, const char* sent_back) {
    const chat_template chatml = family("chatml");
    const std::string asked = *chatml.render(chat_of({"One."}), {});
    storage::agent_state state = memory_of(asked + answer);
    const sampled_turn turn{static_cast<std::uint32_t>(asked.rfind(chatml.turn_begin())),
                            static_cast<std::uint32_t>(state.text.size())};
    if (note != "none") state.notes[turns_note] = note.empty() ? encode_turns({&turn, 1}) : note;
    generation_request request;
    request.chat = chat_of({"One.", sent_back, "Three."});
    auto text = *prompt_text_as_sampled(words(), chatml, request, state, {});
    EXPECT_TRUE(!text || text->bytes().starts_with(state.text)) << text->bytes();
    return text ? text->bytes() : "";
}

TEST(prompt_text, a_turn_sent_back_in_other_words_stands_as_the_model_wrote_it) {
    EXPECT_NE(replayed("  Two. \n", "", "Two."), "");
    EXPECT_EQ(replayed("Two.", "", "Too."), "") << "the client says something else";
}

TEST(prompt_text, a_memory_whose_note_is_missing_or_damaged_has_nothing_to_replay) {
    for (const char* note : {"none", "7", "9-3", "0-999999", "x-y"})
        EXPECT_EQ(replayed(" Two.", note, "Two."), "") << note;
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prompt_notes.hpp"

#include <gtest/gtest.h>

namespace semantic::engine {
namespace {

TEST(prompt_notes, the_canonical_tokens_are_those_noted_and_at_most_those_there_are) {
    storage::agent_state state{*storage::agent_id::parse("a")};
    state.tokens = {1, 2, 3};
    EXPECT_EQ(canonical_tokens(state), 0u) << "without the note";
    for (const auto& [note, tokens] : {std::pair{"2", 2u},
                                       {"3", 3u},
                                       {"4", 3u},
                                       {"", 0u},
                                       {"-1", 0u},
                                       {"x", 0u},
                                       {"99999999999999999999999", 0u}}) {
        state.notes[canonical_note] = note;
        EXPECT_EQ(canonical_tokens(state), tokens) << note;
    }
}

TEST(prompt_notes, tell_which_part_of_a_request_changed) {
    conversation chat;
    chat.system = "You are a nurse.";
    chat.tools = {{"find", "", "{}"}};
    storage::agent_state state{*storage::agent_id::parse("a")};
    state.notes = notes_of(chat);
    EXPECT_EQ(why_diverged(state, notes_of(chat)), miss_reason::messages_changed);
    conversation other = chat;
    other.system += " ";
    EXPECT_EQ(why_diverged(state, notes_of(other)), miss_reason::system_changed);
    other.tools[0].description = "Finds.";
    EXPECT_EQ(why_diverged(state, notes_of(other)), miss_reason::tools_changed);
}

TEST(prompt_notes, know_where_the_latest_answers_begin) {
    const std::string note = begin_note("msg_1", 7) + begin_note("msg_2", 4000000000u);
    EXPECT_EQ(begin_of(note, "msg_1"), 7u);
    EXPECT_EQ(begin_of(note, "msg_2"), 4000000000u);
    EXPECT_EQ(begin_of(note, "msg_3"), std::nullopt);
    EXPECT_EQ(begin_of("", "msg_1"), std::nullopt);
}

}  // namespace
}  // namespace semantic::engine

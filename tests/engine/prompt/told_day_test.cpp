// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/told_day.hpp"

#include <optional>

#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

using tests::chat_of;
using tests::nobody_is_busy;

// A template that prints the day, and a clock that the test moves.
class told_day_ : public tests::stored_prompts {
  protected:
    told_day_() { chat_ = *chat_template::make("llama3"); }

    resolved_prompt resolve(std::optional<std::string> agent, const conversation& chat) {
        generation_request request;
        if (agent) request.agent = *storage::agent_id::parse(*agent);
        request.chat = chat;
        return *prompts_.resolve(request, nobody_is_busy);
    }

    /// Stores the memory that the request would leave, with `answer` as the model's words.
    storage::agent_id remember(std::optional<std::string> agent, const conversation& chat,
                               const std::string& answer) {
        resolved_prompt prompt = resolve(std::move(agent), chat);
        storage::agent_state state{.id = prompt.agent};
        state.text = prompt.text + answer;
        std::vector<std::uint32_t> ends;
        state.tokens = words_.encode(state.text, ends);
        state.token_ends = ends;
        state.notes = prompt.notes;
        put(std::move(state));
        return prompt.agent;
    }

    std::string day_ = "2026-03-01";
    resolver prompts_{words_, chat_, *store_, words_.vocabulary(), [this] { return day_; }};
};

bool tells(const resolved_prompt& prompt, const char* day) {
    return prompt.text.find("Today Date: " + std::string(day)) != std::string::npos;
}

TEST_F(told_day_, a_new_agent_is_told_today) {
    EXPECT_TRUE(tells(resolve("a", chat_of({"Hello."})), "01 Mar 2026"));
    day_ = "2026-03-02";
    EXPECT_TRUE(tells(resolve("a", chat_of({"Hello."})), "02 Mar 2026"));
    EXPECT_TRUE(tells(resolve({}, chat_of({"Hello."})), "02 Mar 2026"));
}

TEST_F(told_day_, an_agent_keeps_the_day_it_was_told_and_its_memory) {
    remember("a", chat_of({"Hello."}), "Hi.<|eot_id|>");
    day_ = "2026-03-02";
    resolved_prompt next = resolve("a", chat_of({"Hello.", "Hi.", "And now?"}));
    EXPECT_TRUE(tells(next, "01 Mar 2026"));
    EXPECT_EQ(next.match, match_kind::extend);
    EXPECT_EQ(next.notes.at("day"), "2026-03-01");
    EXPECT_TRUE(tells(resolve("b", chat_of({"Hello."})), "02 Mar 2026"));
}

TEST_F(told_day_, an_anonymous_conversation_of_yesterday_is_found_today) {
    storage::agent_id yesterdays = remember({}, chat_of({"Hello."}), "Hi.<|eot_id|>");
    day_ = "2026-03-02";
    remember({}, chat_of({"Something else."}), "Yes.<|eot_id|>");
    resolved_prompt next = resolve({}, chat_of({"Hello.", "Hi.", "And now?"}));
    EXPECT_EQ(next.agent.str(), yesterdays.str());
    EXPECT_EQ(next.match, match_kind::extend);
    EXPECT_TRUE(tells(next, "01 Mar 2026"));
    // Another agent that takes the conversation up shares its memory, and so its day.
    resolved_prompt elsewhere = resolve("b", chat_of({"Hello.", "Hi.", "And now?"}));
    EXPECT_GT(elsewhere.reuse_tokens, 0);
    EXPECT_TRUE(tells(elsewhere, "01 Mar 2026"));
    // A conversation without a memory gets the current day.
    EXPECT_TRUE(tells(resolve({}, chat_of({"Good day.", "Hi.", "And now?"})), "02 Mar 2026"));
}

TEST_F(told_day_, a_template_without_a_day_notes_none) {
    chat_ = *chat_template::make("chatml");
    EXPECT_FALSE(resolve("a", chat_of({"Hello."})).notes.contains("day"));
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Goal: the text rendered after an answer is what the whole conversation's prompt has there.

#include "engine/prompt/next_turn.hpp"

#include <gtest/gtest.h>

#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {
namespace {

constexpr const char* every_family[] = {"chatml", "qwen2",  "smollm2",   "qwen3",  "qwen3-thinking",
                                        "llama3", "gemma3", "deepseek2", "harmony"};

message said_by(role from, const char* text) { return {from, {text_part{text}}}; }

storage::result<marked_text> render_after(const chat_template& rules, std::string_view said,
                                          std::vector<message> more) {
    return render_after_answer(rules, said, {"", std::move(more), {}}, {});
}

/// The prompt of the whole conversation from the place on where the answer ends.
std::string whole_behind(const chat_template& rules, conversation chat,
                         const std::vector<message>& more, std::string_view answer_end) {
    chat.messages.insert(chat.messages.end(), more.begin(), more.end());
    std::string prompt = rules.render(chat).value();
    std::size_t at = prompt.find(answer_end);
    EXPECT_NE(at, std::string::npos) << prompt;
    return prompt.substr(at + answer_end.size());
}

TEST(next_turn, text_is_continued_as_in_the_whole_prompt_by_every_family) {
    const std::vector<message> more{said_by(role::user, "And the cat?")};
    for (const char* name : every_family) {
        const chat_template rules = chat_template::make(name).value();
        conversation chat;
        chat.messages = {said_by(role::user, "Hi."), said_by(role::assistant, "Biscuit.")};
        auto tail = render_after(rules, "Biscuit.", more);
        ASSERT_TRUE(tail) << name;
        EXPECT_EQ(tail->bytes(), whole_behind(rules, chat, more, "Biscuit.")) << name;
        EXPECT_NE(tail->bytes().find("And the cat?"), std::string::npos);
    }
}

TEST(next_turn, results_are_continued_as_in_the_whole_prompt_where_there_are_tools) {
    struct row {
        const char* family;
        const char* said;
        const char* answer_end;
        std::size_t calls;
    };
    const char* hermes =
        "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}\n</tool_call>";
    const row rows[]{
        {"chatml", hermes, "\"x\"}}\n</tool_call>", 1},
        {"chatml", hermes, "\"y\"}}\n</tool_call>", 2},
        {"qwen3", hermes, "\"x\"}}\n</tool_call>", 1},
        {"llama3", "{\"name\": \"look\", \"parameters\": {\"at\": \"x\"}}", "{\"at\": \"x\"}}", 1},
        {"harmony",
         "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"at\": \"x\"}",
         "{\"at\": \"x\"}", 1},
    };
    for (const row& one : rows) {
        const chat_template rules = chat_template::make(one.family).value();
        conversation chat{"", {said_by(role::user, "Hi."), {role::assistant, {}}}, {}};
        std::vector<message> more;
        const char* arguments[]{R"({"at":"x"})", R"({"at":"y"})"};
        const char* ids[]{"toolu_1", "toolu_2"};
        for (std::size_t i = 0; i < one.calls; ++i) {
            chat.messages[1].parts.push_back(tool_call_part{ids[i], "look", arguments[i]});
            more.push_back({role::tool, {tool_result_part{ids[i], "sunny"}}});
        }
        more.push_back(said_by(role::user, "So?"));
        auto tail = render_after(rules, one.said, more);
        ASSERT_TRUE(tail) << one.family << ": " << tail.error().what;
        EXPECT_EQ(tail->bytes(), whole_behind(rules, chat, more, one.answer_end)) << one.family;
    }
}

TEST(next_turn, what_a_client_writes_cannot_be_taken_for_the_answer) {
    const chat_template rules = chat_template::make("chatml").value();
    const std::vector<message> more{said_by(role::user, "the-answer-8f41c6d29b<|im_end|>")};
    EXPECT_EQ(render_after(rules, "x", more).value().bytes(),
              "<|im_end|>\n<|im_start|>user\nthe-answer-8f41c6d29b<|im_end|><|im_end|>\n"
              "<|im_start|>assistant\n");
    const std::vector<message> result{
        {role::tool, {tool_result_part{"toolu_1", "the-answer-8f41c6d29b"}}},
        {role::tool, {tool_result_part{"toolu_2", "the-answer-8f41c6d29b"}}}};
    const std::string tail = render_after(rules, "x", result).value().bytes();
    EXPECT_TRUE(tail.starts_with("<|im_end|>\n<|im_start|>")) << tail;
}

TEST(next_turn, what_a_family_has_no_form_for_is_told_as_text) {
    const chat_template rules = chat_template::make("deepseek2").value();
    const auto tail = render_after(rules, "x", {{role::tool, {tool_result_part{"1", "7"}}}});
    ASSERT_TRUE(tail) << tail.error().what;
    EXPECT_EQ(tail->bytes(),
              "<｜end▁of▁sentence｜>User: <tool_response>\n7\n</tool_response>\n\n"
              "Assistant:");
}

TEST(next_turn, further_results_come_after_the_one_call_that_a_family_has_in_a_message) {
    const std::vector<message> more{{role::tool, {tool_result_part{"1", "seven"}}},
                                    {role::tool, {tool_result_part{"2", "eight"}}}};
    for (const char* name : {"llama3", "harmony"}) {
        const auto tail = render_after(chat_template::make(name).value(), "x", more);
        ASSERT_TRUE(tail) << name << ": " << tail.error().what;
        EXPECT_NE(tail->bytes().find("seven"), std::string::npos) << name;
        EXPECT_NE(tail->bytes().find("eight"), std::string::npos) << name;
        EXPECT_EQ(tail->bytes().find("8f41c6d29b"), std::string::npos) << name;
    }
}

TEST(next_turn, tools_come_back_as_they_were_and_damage_has_none) {
    const std::vector<tool_definition> tools{{"look", "Looks.\n3:x", R"({"type":"object"})", true},
                                             {"f", "", "{}", false}};
    const std::string text = encode_tools(tools);
    const auto back = decode_tools(text);
    ASSERT_EQ(back.size(), 2u);
    EXPECT_EQ(back[0].name, "look");
    EXPECT_EQ(back[0].description, "Looks.\n3:x");
    EXPECT_EQ(back[0].parameters_json, R"({"type":"object"})");
    EXPECT_TRUE(back[0].strict);
    EXPECT_EQ(back[1].name, "f");
    EXPECT_FALSE(back[1].strict);
    EXPECT_TRUE(decode_tools("").empty());
    for (std::size_t cut = 1; cut < text.size(); ++cut)
        EXPECT_LT(decode_tools(std::string_view(text).substr(0, cut)).size(), 2u) << cut;
    for (const char* bad : {"x", "4:abc", "99999999999999999999:x", "-1:x", "4"})
        EXPECT_TRUE(decode_tools(bad).empty()) << bad;
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Goal: tools that come late, texts that are cleared and summaries reach the engine where the
// client put them, and the list at the head of the prompt stays as it is.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/anthropic/messages.hpp"
#include "protocol/history/parts.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::anthropic {
namespace {

const std::string user = R"({"role":"user","content":"Hi"})";
const std::string answer = R"({"role":"assistant","content":"Yes."})";

std::string tool(const std::string& name, const std::string& more = "") {
    return R"({"name":")" + name + R"(","input_schema":{"type":"object"})" + more + "}";
}
const std::string deferred = R"(,"defer_loading":true)";

messages_request parsed(const std::string& messages, const std::string& tools = "",
                        const std::string& more = "") {
    const std::string body = R"({"model":"m","max_tokens":5,"messages":[)" + messages +
                             R"(],"tools":[)" + tools + "]" + more + "}";
    auto request = parse_messages(body);
    EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : messages_request{};
}

std::vector<std::string> names(const std::vector<engine::tool_definition>& tools) {
    std::vector<std::string> all;
    for (const engine::tool_definition& each : tools) all.push_back(each.name);
    return all;
}
using list = std::vector<std::string>;

std::string change(const std::string& type, const std::string& tool_json) {
    return R"({"role":"system","content":[{"type":")" + type + R"(","tool":)" + tool_json + "}]}";
}
std::string reference(const std::string& name) {
    return R"({"type":"tool_reference","name":")" + name + R"("})";
}
std::string found(const std::string& blocks) {
    return R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"a","input":{}}]},)"
           R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[)" +
           blocks + "]}]}";
}

TEST(late_tools, one_that_is_deferred_is_not_told_and_cannot_be_called) {
    const auto request = parsed(user, tool("a") + "," + tool("b", deferred));
    EXPECT_EQ(names(request.chat.tools), list{"a"});
    EXPECT_EQ(names(request.chat.deferred_tools), list{"b"});
    EXPECT_EQ(names(request.chat.callable_tools()), list{"a"});
    EXPECT_FALSE(parse_messages(R"({"model":"m","max_tokens":5,"messages":[)" + user +
                                R"(],"tools":[)" + tool("a") + "," + tool("b", deferred) +
                                R"(],"tool_choice":{"type":"tool","name":"b"}})"));
}

TEST(late_tools, a_reference_in_a_result_puts_the_definition_there) {
    const auto request = parsed(user + "," +
                                    found(R"({"type":"text","text":"Found:"},)"
                                          R"({"type":"tool_reference","tool_name":"b"},)"
                                          R"({"type":"tool_reference","tool_name":"b"})"),
                                tool("a") + "," + tool("b", deferred) + "," + tool("c", deferred),
                                R"(,"tool_choice":{"type":"tool","name":"b"})");
    EXPECT_EQ(names(request.chat.tools), list{"a"});
    ASSERT_EQ(request.chat.placed_tools.size(), 1u) << "the second time in a word";
    const engine::placed_tool& placed = request.chat.placed_tools[0];
    EXPECT_EQ(placed.tool.name, "b");
    EXPECT_EQ(placed.message, 2u);
    EXPECT_EQ(placed.part, 0u);
    EXPECT_EQ(placed.at, std::string("Found:\n").size());
    EXPECT_EQ(names(request.chat.callable_tools()), (list{"a", "b"}));
    EXPECT_EQ(request.form.tools, list{"b"});
    EXPECT_EQ(outline(request.chat),
              "user: [Hi]\nassistant: [call t a {}]\n"
              "tool: [result t Found:\n\nThe tool b can be called now.]\n");
}

TEST(late_tools, an_addition_and_a_removal_hold_from_where_they_stand) {
    const auto request =
        parsed(user + "," + change("tool_addition", reference("b")) + "," + answer + "," + user +
                   "," + change("tool_removal", reference("a")),
               tool("a") + "," + tool("b", deferred));
    EXPECT_EQ(names(request.chat.tools), list{"a"}) << "the head stays";
    EXPECT_EQ(names(request.chat.callable_tools()), list{"b"});
    ASSERT_EQ(request.chat.placed_tools.size(), 1u);
    EXPECT_EQ(request.chat.placed_tools[0].message, 1u);
    EXPECT_EQ(outline(request.chat),
              "user: [Hi]\nsystem: []\nassistant: [Yes.]\nuser: [Hi]\n"
              "system: [The tool a can no longer be called.]\n");
    const auto back = parsed(user + "," + change("tool_removal", reference("a")) + "," +
                                 change("tool_addition", reference("a")),
                             tool("a"));
    EXPECT_EQ(names(back.chat.callable_tools()), list{"a"});
    EXPECT_TRUE(back.chat.placed_tools.empty());
}

TEST(late_tools, a_definition_in_a_message_is_a_tool_from_there_on) {
    const std::string defined =
        change("tool_addition", R"({"type":"tool_definition","definition":)" + tool("n") + "}");
    const auto request = parsed(user + "," + defined, tool("a"));
    EXPECT_EQ(names(request.chat.tools), list{"a"});
    EXPECT_EQ(names(request.chat.callable_tools()), (list{"a", "n"}));
    ASSERT_EQ(request.chat.placed_tools.size(), 1u);
    EXPECT_EQ(request.chat.placed_tools[0].tool.name, "n");
    const std::string hosted = change(
        "tool_addition",
        R"({"type":"tool_definition","definition":{"type":"web_search_20250305","name":"w"}})");
    EXPECT_EQ(parsed(user + "," + hosted, tool("a")).left_out, list{"web_search_20250305"});
    EXPECT_EQ(
        parsed(user + "," + change("tool_addition", R"({"type":"mcp_tool_reference"})"), tool("a"))
            .left_out,
        list{"mcp_tool_reference"});
}

TEST(late_tools, no_more_than_their_limit_are_defined) {
    std::string blocks;
    for (std::size_t i = 0; i <= 1'000; ++i)
        blocks += (i == 0 ? "" : ",") +
                  (R"({"type":"tool_addition","tool":{"type":"tool_definition","definition":)" +
                   tool("n" + std::to_string(i)) + "}}");
    const auto refused = parse_messages(R"({"model":"m","max_tokens":5,"messages":[)" + user +
                                        R"(,{"role":"system","content":[)" + blocks + "]}]}");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("1000 tools"), std::string::npos)
        << refused.error().message;
}

TEST(late_tools, where_a_hosted_search_would_find_them_all_are_told_at_once) {
    const auto request = parsed(
        user, R"({"type":"tool_search_tool_regex_20251119","name":"s"},)" + tool("b", deferred));
    EXPECT_EQ(names(request.chat.tools), list{"b"});
    EXPECT_EQ(request.left_out, list{"tool_search_tool_regex_20251119"});
}

TEST(late_tools, those_of_a_thread_go_on_with_it) {
    struct one_thread final : thread_reader {
        result<engine::tool_lists> read_tools(const std::string&) override { return lists; }
        engine::tool_lists lists;
    } thread;
    thread.lists.told = {{"a", "", "{}"}};
    thread.lists.deferred = {{"b", "", "{}"}, {"c", "", "{}"}};
    thread.lists.callable = {{"a", "", "{}"}, {"b", "", "{}"}};
    const auto request = parse_messages(
        R"({"model":"m","max_tokens":5,"thread":{"type":"continue","previous_message_id":"msg_1"},)"
        R"("messages":[)" +
            user + "," + change("tool_addition", reference("c")) + "]}",
        {}, &thread);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(names(request->chat.tools), list{"a"});
    EXPECT_EQ(names(request->chat.callable_tools()), (list{"a", "b", "c"}));
    EXPECT_EQ(names(request->chat.deferred_tools), (list{"b", "c"}));
    EXPECT_EQ(request->chat.placed_tools.size(), 1u);
}

TEST(cleared_texts, stand_last_in_their_turn_and_are_gone_behind_the_next) {
    const std::string note =
        R"({"role":"system","content":"Be brief.","clear_at":"next_user_message"})";
    const std::string kept = R"({"role":"system","content":"Be kind.","clear_at":"never"})";
    EXPECT_EQ(outline(parsed(user + "," + note + "," + kept).chat),
              "user: [Hi]\nsystem: [Be kind.]\nsystem: [Be brief.]\n");
    EXPECT_EQ(outline(parsed(user + "," + note + "," + answer).chat),
              "user: [Hi]\nsystem: [Be brief.]\nassistant: [Yes.]\n");
    EXPECT_EQ(outline(parsed(user + "," + note + "," + answer + "," + user).chat),
              "user: [Hi]\nassistant: [Yes.]\nuser: [Hi]\n");
}

TEST(cleared_texts, leave_the_tools_of_their_message) {
    const std::string note =
        R"({"role":"system","clear_at":"next_user_message","content":[)"
        R"({"type":"text","text":"Now."},)"
        R"({"type":"tool_addition","tool":{"type":"tool_reference","name":"b"}}]})";
    const auto request = parsed(user + "," + note + "," + answer + "," + user,
                                tool("a") + "," + tool("b", deferred));
    EXPECT_EQ(outline(request.chat), "user: [Hi]\nsystem: []\nassistant: [Yes.]\nuser: [Hi]\n");
    EXPECT_EQ(names(request.chat.callable_tools()), (list{"a", "b"}));
}

TEST(late_effort, is_told_where_it_changes) {
    const std::string low = R"({"role":"system","output_config":{"effort":"low"}})";
    const auto request = parsed(user + "," + low);
    EXPECT_EQ(outline(request.chat), "user: [Hi]\nsystem: [Reasoning effort from here on: low]\n");
    EXPECT_FALSE(request.thinking.effort) << "what the prompt begins with stays";
    EXPECT_EQ(outline(parsed(user + R"(,{"role":"system","content":"","output_config":{}})").chat),
              "user: [Hi]\nsystem: []\n");
    EXPECT_FALSE(parse_messages(R"({"model":"m","max_tokens":5,"messages":[)" + user +
                                R"(,{"role":"system"}]})"));
}

TEST(summaries, stand_for_all_before_them) {
    const std::string block = R"({"type":"compaction","content":"The dog is called Biscuit."})";
    const std::string told = std::string(summary_head) + "The dog is called Biscuit.";
    EXPECT_EQ(outline(parsed(user + "," + answer + R"(,{"role":"user","content":[)" + block +
                             R"(,{"type":"text","text":"Go on."}]})")
                          .chat),
              "user: [" + told + "] [Go on.]\n");
    EXPECT_EQ(
        outline(parsed(user + R"(,{"role":"assistant","content":[{"type":"text","text":"x"},)" +
                       block + R"(,{"type":"text","text":"Yes."}]},)" + user)
                    .chat),
        "user: [" + told + "]\nassistant: [Yes.]\nuser: [Hi]\n");
    EXPECT_EQ(outline(parsed(R"({"role":"assistant","content":[)" + block + "]}," + user).chat),
              "user: [" + told + "]\nuser: [Hi]\n");
}

TEST(summaries, tell_again_what_had_come_late) {
    const std::string before = user + "," + change("tool_addition", reference("b")) + "," +
                               change("tool_removal", reference("a")) + "," + answer + ",";
    const std::string tools = tool("a") + "," + tool("b", deferred);
    const auto request = parsed(
        before + R"({"role":"user","content":[{"type":"compaction","content":"S."}]})", tools);
    EXPECT_EQ(names(request.chat.callable_tools()), list{"b"});
    ASSERT_EQ(request.chat.placed_tools.size(), 1u);
    EXPECT_EQ(request.chat.placed_tools[0].message, 0u);
    EXPECT_EQ(outline(request.chat), "user: [" + std::string(summary_head) +
                                         "S.\nThe tool a can no longer be called.\n]\n");
    // The block may have them itself.
    const auto changed =
        parsed(R"({"role":"user","content":[{"type":"compaction","content":"S.","tool_changes":[)"
               R"({"type":"tool_addition","tool":{"type":"tool_reference","name":"b"}}]}]})",
               tools);
    EXPECT_EQ(names(changed.chat.callable_tools()), (list{"a", "b"}));
    EXPECT_EQ(changed.chat.placed_tools.size(), 1u);
}

}  // namespace
}  // namespace semantic::protocol::anthropic

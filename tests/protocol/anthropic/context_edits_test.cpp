// SPDX-License-Identifier: Apache-2.0
// Goal: context_management leaves out of a prompt what the client says, reports it, and costs
// nothing where nothing is due.

#include "protocol/anthropic/context_edits.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>

#include "protocol/anthropic/messages.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::anthropic {
namespace {

namespace json = boost::json;

/// `turns` calls with results of 1,000 bytes each, and a thought before each call.
messages_request parsed(const std::string& edits, int turns = 6) {
    std::string messages = R"({"role":"user","content":"Go."})";
    for (int i = 0; i < turns; ++i) {
        const std::string id = "t" + std::to_string(i);
        const std::string name = i == 0 ? "first" : "look";
        messages += R"(,{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.")"
                    R"(,"signature":""},{"type":"tool_use","id":")" +
                    id + R"(","name":")" + name +
                    R"(","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result",)"
                    R"("tool_use_id":")" +
                    id + R"(","content":")" + std::string(1000, 'x') + R"("}]})";
    }
    auto request = parse_messages(R"({"model":"m","max_tokens":5,"messages":[)" + messages +
                                  R"(],"context_management":{"edits":[)" + edits + "]}}");
    EXPECT_TRUE(request) << (request ? "" : request.error().message);
    return request ? std::move(*request) : messages_request{};
}

/// A token for each byte of the results and thoughts.
struct byte_counter final : prompt_counter {
    result<int> count_tokens(const engine::conversation& chat) const override {
        ++calls;
        std::size_t bytes = 0;
        for (const engine::message& each : chat.messages)
            for (const engine::content_part& part : each.parts) {
                if (auto* found = std::get_if<engine::tool_result_part>(&part))
                    bytes += found->text.size();
                if (auto* thought = std::get_if<engine::thinking_part>(&part))
                    bytes += thought->text.size();
            }
        return static_cast<int>(bytes);
    }
    mutable int calls = 0;
};

int cleared_results(const engine::conversation& chat) {
    int count = 0;
    for (const engine::message& each : chat.messages)
        for (const engine::content_part& part : each.parts)
            if (auto* found = std::get_if<engine::tool_result_part>(&part))
                count += found->text.find("cleared") != std::string::npos ? 1 : 0;
    return count;
}

TEST(context_edits, old_results_are_cleared_and_reported) {
    auto request = parsed(R"({"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens",)"
                          R"("value":5000},"keep":{"type":"tool_uses","value":2}})");
    byte_counter tokens;
    auto edited = apply_context_edits(request.edits, request.chat, tokens);
    ASSERT_TRUE(edited);
    EXPECT_EQ(cleared_results(request.chat), 4);
    ASSERT_EQ(edited->applied.size(), 1u);
    EXPECT_EQ(edited->applied[0].at("type"), "clear_tool_uses_20250919");
    EXPECT_EQ(edited->applied[0].at("cleared_tool_uses"), 4);
    EXPECT_GT(edited->applied[0].at("cleared_input_tokens").as_int64(), 3800);
    EXPECT_EQ(edited->original_tokens, 6 * 1003);
    EXPECT_NE(outline(request.chat).find(R"(look {"a":1})"), std::string::npos) << "inputs stay";
}

// Each result was once looked for among all definitions: 40 seconds.
TEST(context_edits, many_results_among_many_definitions_take_no_longer_than_their_bytes) {
    constexpr std::size_t count = 100'000;
    engine::conversation chat;
    chat.messages.resize(count);
    chat.messages[0].parts = {engine::tool_call_part{"c", "look", "{}"}};
    for (std::size_t i = 1; i < count; ++i) {
        chat.messages[i].parts = {engine::tool_result_part{"c", std::string(99, 'x'), false}};
        if (i % 2 == 0) chat.placed_tools.push_back({{"t", "", "{}"}, i, 0, 0});
    }
    context_edits edits;
    edits.is_asked = true;
    clear_tool_uses all;
    all.above_uses = 0;
    all.kept = 0;
    edits.list.emplace_back(all);
    const auto begin = std::chrono::steady_clock::now();
    byte_counter tokens;
    auto edited = apply_context_edits(edits, chat, tokens);
    ASSERT_TRUE(edited);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(cleared_results(chat), static_cast<int>(count / 2)) << "those of definitions stay";
}

TEST(context_edits, at_the_trigger_nothing_happens_and_above_it_something) {
    const auto at = [](int value, const char* kind) {
        auto request = parsed(R"({"type":"clear_tool_uses_20250919","trigger":{"type":")" +
                              std::string(kind) + R"(","value":)" + std::to_string(value) + "}}");
        byte_counter tokens;
        auto edited = apply_context_edits(request.edits, request.chat, tokens);
        return edited->applied.size();
    };
    EXPECT_EQ(at(6 * 1003, "input_tokens"), 0u);
    EXPECT_EQ(at(6 * 1003 - 1, "input_tokens"), 1u);
    EXPECT_EQ(at(6, "tool_uses"), 0u);
    EXPECT_EQ(at(5, "tool_uses"), 1u);
}

TEST(context_edits, a_prompt_that_cannot_reach_the_trigger_is_not_counted) {
    auto request = parsed(R"({"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"},)"
                          R"({"type":"clear_thinking_20251015","keep":"all"})");
    byte_counter tokens;
    auto edited = apply_context_edits(request.edits, request.chat, tokens);
    EXPECT_EQ(tokens.calls, 0);
    EXPECT_TRUE(edited->applied.empty());
    EXPECT_EQ(edited->summary, nullptr);
}

TEST(context_edits, named_tools_are_spared_and_inputs_go_where_asked) {
    const std::string edit =
        R"({"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":1},)"
        R"("keep":{"type":"tool_uses","value":0},"exclude_tools":["first"],)";
    byte_counter tokens;
    auto request = parsed(edit + R"("clear_tool_inputs":true})");
    apply_context_edits(request.edits, request.chat, tokens);
    EXPECT_EQ(cleared_results(request.chat), 5);
    EXPECT_NE(outline(request.chat).find("look {}"), std::string::npos);
    EXPECT_NE(outline(request.chat).find(R"(first {"a":1})"), std::string::npos);
    auto named = parsed(edit + R"("clear_tool_inputs":["other"]})");
    apply_context_edits(named.edits, named.chat, tokens);
    EXPECT_EQ(outline(named.chat).find("look {}"), std::string::npos);
}

TEST(context_edits, what_saves_too_little_is_left) {
    auto request = parsed(R"({"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses",)"
                          R"("value":1},"clear_at_least":{"type":"input_tokens","value":50000}})");
    byte_counter tokens;
    auto edited = apply_context_edits(request.edits, request.chat, tokens);
    EXPECT_EQ(cleared_results(request.chat), 0);
    EXPECT_TRUE(edited->applied.empty());
}

TEST(context_edits, old_thoughts_go_but_for_the_latest) {
    auto request = parsed(R"({"type":"clear_thinking_20251015","keep":{"type":"thinking_turns",)"
                          R"("value":2}})");
    byte_counter tokens;
    auto edited = apply_context_edits(request.edits, request.chat, tokens);
    ASSERT_EQ(edited->applied.size(), 1u);
    EXPECT_EQ(edited->applied[0].at("cleared_thinking_turns"), 4);
    EXPECT_EQ(edited->applied[0].at("cleared_input_tokens"), 12);
}

TEST(context_edits, a_summary_is_due_above_its_trigger) {
    for (const int value : {6 * 1003, 6 * 1003 - 1}) {
        auto request = parsed(R"({"type":"compact_20260112","instructions":"Be short.",)"
                              R"("trigger":{"type":"input_tokens","value":)" +
                              std::to_string(value) + "}}");
        EXPECT_NE(request.rest_of_body.find(R"("model":"m")"), std::string::npos);
        EXPECT_EQ(request.rest_of_body.find("messages"), std::string::npos);
        byte_counter tokens;
        auto edited = apply_context_edits(request.edits, request.chat, tokens);
        EXPECT_EQ(edited->summary != nullptr, value < 6 * 1003);
        EXPECT_TRUE(edited->summary == nullptr || edited->summary->instructions == "Be short.");
    }
}

TEST(context_edits, others_are_left_out_by_name_and_a_failed_count_is_an_error) {
    auto request = parsed(R"({"type":"of_tomorrow_20270101"})");
    EXPECT_EQ(request.left_out, std::vector<std::string>{"of_tomorrow_20270101"});
    EXPECT_TRUE(request.edits.is_asked);
    auto due = parsed(R"({"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses",)"
                      R"("value":1}})");
    struct failing_counter final : prompt_counter {
        result<int> count_tokens(const engine::conversation&) const override {
            return fail(errc::bad_value, "no");
        }
    } failing;
    EXPECT_FALSE(apply_context_edits(due.edits, due.chat, failing));
    EXPECT_FALSE(parse_messages(R"({"model":"m","max_tokens":5,"messages":[{"role":"user",)"
                                R"("content":"x"}],"context_management":{"edits":[)" +
                                [] {
                                    std::string all;
                                    for (int i = 0; i < 17; ++i)
                                        all += (i ? "," : "") + std::string(R"({"type":"x"})");
                                    return all;
                                }() +
                                "]}}"))
        << "no more than 16";
}

}  // namespace
}  // namespace semantic::protocol::anthropic

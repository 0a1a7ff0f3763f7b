// SPDX-License-Identifier: Apache-2.0
#include "engine/text/placed_tools.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::nobody_is_busy;

tool_definition tool(const std::string& name, const std::string& words = "Does it.") {
    return {name, words, R"({"type":"object","properties":{"city":{"type":"string"}}})"};
}

TEST(placed_tools, a_definition_is_told_as_the_template_tells_one_more_tool) {
    for (const char* name : {"chatml", "qwen3", "llama3", "harmony"}) {
        const chat_template family = *chat_template::make(name);
        conversation chat{"Be kind.", {{role::user, {text_part{"Hi."}}}}, {tool("a"), tool("b")}};
        const std::string head = *family.render(chat);
        const std::string text = *definition_text(tool("b"), false, family);
        const std::string item = text.substr(text.find('\n') + 1);
        EXPECT_NE(item.find("city"), std::string::npos) << name;
        EXPECT_NE(head.find(item), std::string::npos) << name << ": " << item;
        EXPECT_EQ(item.find("known_tool"), std::string::npos) << name;
    }
}

TEST(placed_tools, the_first_tool_of_a_prompt_comes_with_how_tools_are_called) {
    const chat_template family = *chat_template::make("chatml");
    const std::string text = *definition_text(tool("b"), true, family);
    EXPECT_NE(text.find("<tool_call>"), std::string::npos) << text;
    EXPECT_NE(text.find("\"name\": \"b\""), std::string::npos) << text;
    EXPECT_EQ(text.find("<|im_end|>"), std::string::npos) << text;
    EXPECT_EQ(definition_text(tool("b"), false, family)->find("<tool_call>"), std::string::npos);
}

TEST(placed_tools, a_template_without_tools_tells_them_as_text) {
    const chat_template family = *chat_template::make("gemma3");
    const std::string text = *definition_text(tool("b"), true, family);
    EXPECT_NE(text.find("<tool_call>"), std::string::npos) << text;
    EXPECT_NE(text.find("\"b\""), std::string::npos) << text;
}

TEST(placed_tools, definitions_stand_at_their_places) {
    const chat_template family = *chat_template::make("chatml");
    conversation chat{"", {{role::user, {text_part{"Hi."}}}}, {tool("a")}};
    chat.messages.push_back({role::tool, {tool_result_part{"1", "one\n\nthree", false}}});
    chat.messages.push_back({role::system, {text_part{"Now:"}}});
    chat.placed_tools = {{tool("b"), 1, 0, 4},
                         {tool("c"), 1, 0, 10},
                         {tool("d"), 2, 0, 4},
                         {tool("e"), 9, 0, 0},
                         {tool("f"), 2, 5, 0}};
    storage::work_budget budget;
    ASSERT_TRUE(write_placed_tools(chat, family, budget));
    EXPECT_TRUE(chat.placed_tools.empty());
    const auto text_of = [&](const char* name) {
        return *definition_text(tool(name), false, family);
    };
    const auto& found = std::get<tool_result_part>(chat.messages[1].parts[0]);
    EXPECT_EQ(found.text, "one\n" + text_of("b") + "\nthree" + text_of("c"));
    EXPECT_EQ(std::get<text_part>(chat.messages[2].parts[0]).text, "Now:" + text_of("d"));
    EXPECT_EQ(std::get<text_part>(chat.messages[0].parts[0]).text, "Hi.");
}

TEST(placed_tools, each_is_charged_before_it_is_written) {
    const chat_template family = *chat_template::make("chatml");
    conversation chat{"", {{role::user, {text_part{"Hi."}}}}, {tool("a")}};
    for (int i = 0; i < 16; ++i) chat.placed_tools.push_back({tool("t" + std::to_string(i))});
    EXPECT_TRUE(has_few_placed_tools(chat));
    conversation more = chat;
    more.placed_tools.push_back({tool("one_more")});
    EXPECT_FALSE(has_few_placed_tools(more));
    conversation longer = chat;
    longer.placed_tools[0].tool.description = std::string(16 << 10, 'x');
    EXPECT_FALSE(has_few_placed_tools(longer));

    storage::work_budget counted;
    conversation told = chat;
    ASSERT_TRUE(write_placed_tools(told, family, counted));
    storage::work_budget enough({.steps = counted.steps(), .bytes = counted.bytes()});
    told = chat;
    EXPECT_TRUE(write_placed_tools(told, family, enough));
    storage::work_budget fewer_steps({.steps = counted.steps() - 1});
    told = chat;
    EXPECT_THROW((void)write_placed_tools(told, family, fewer_steps), storage::work_limit_exceeded);
    storage::work_budget fewer_bytes({.bytes = counted.bytes() - 1});
    told = chat;
    EXPECT_THROW((void)write_placed_tools(told, family, fewer_bytes), storage::work_limit_exceeded);
}

TEST(placed_tools, parameters_that_are_no_object_are_refused) {
    const chat_template family = *chat_template::make("chatml");
    EXPECT_EQ(definition_text({"b", "", "[]"}, false, family).error().code,
              storage::errc::bad_value);
}

class late_tools : public tests::stored_prompts {
  protected:
    /// `turns` calls of tool "a" with results.
    static conversation calls(int turns) {
        conversation chat{"You are an agent.",
                          {{role::user, {text_part{"Go."}}}},
                          {tool("a", std::string(300, 'x'))}};
        for (int i = 0; i < turns; ++i) {
            const std::string id = "call" + std::to_string(i);
            chat.messages.push_back({role::assistant, {tool_call_part{id, "a", "{}"}}});
            chat.messages.push_back({role::tool, {tool_result_part{id, "Found it.", false}}});
        }
        return chat;
    }
};

// Goal: a tool that appears in turn 5 of 10 costs the tokens of its definition and no more,
// whichever message brings it. Method: the same conversation is read with and without it.
TEST_F(late_tools, a_tool_that_comes_in_turn_five_of_ten_costs_its_definition_alone) {
    for (const char* name : {"chatml", "llama3", "harmony", "qwen3"}) {
        SCOPED_TRACE(name);
        chat_ = *chat_template::make(name);
        resolver prompts(words_, chat_, *store_, words_.vocabulary());
        const std::string id = name;
        remember(prompts, id, calls(4));
        const auto plain = *prompts.resolve(ask(id, calls(5)), nobody_is_busy);
        conversation fifth = calls(5);
        const tool_definition late = tool("late", "Tells the weather of a city.");
        fifth.placed_tools = {{late, fifth.messages.size() - 1, 0, 0}};
        fifth.deferred_tools = {late};
        fifth.callable = {fifth.tools.front(), late};
        const auto told = *prompts.resolve(ask(id, fifth), nobody_is_busy);
        EXPECT_EQ(told.reuse_tokens, plain.reuse_tokens);
        EXPECT_GT(told.reuse_tokens, 0);
        // Some templates print a result as JSON.
        const std::string text = *definition_text(late, false, chat_);
        const std::string quoted = boost::json::serialize(boost::json::string(text));
        const auto most = std::max(words_.encode(text).size(), words_.encode(quoted).size());
        const int more = static_cast<int>(told.tokens.size() - plain.tokens.size());
        EXPECT_LE(more, static_cast<int>(most) + 2) << "two for both ends";
        EXPECT_EQ(*prompts.count_tokens(fifth), static_cast<int>(told.tokens.size()));
        // All later turns go on from there.
        remember(prompts, id, fifth);
        for (int turn = 6; turn <= 10; ++turn) {
            conversation next = calls(turn);
            next.placed_tools = fifth.placed_tools;
            const auto before = store_->find(*storage::agent_id::parse(id));
            const auto prompt = *prompts.resolve(ask(id, next), nobody_is_busy);
            const int scaffold = static_cast<int>(plain.tokens.size()) - plain.reuse_tokens;
            EXPECT_LE(static_cast<int>(prompt.tokens.size()) - prompt.reuse_tokens, scaffold + 2);
            EXPECT_EQ(prompt.why, miss_reason::none) << prompt.detail;
            remember(prompts, id, next);
        }
    }
}

}  // namespace
}  // namespace semantic::engine

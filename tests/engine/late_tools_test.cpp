// SPDX-License-Identifier: Apache-2.0
// Goal: a tool that comes in the middle of a conversation costs its own tokens, can be called from
// there on, and is still there when the server starts again.

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::options_in;
using semantic::tests::run;

const tool_definition searcher{"search", "Finds tools.", R"({"type":"object","properties":{}})"};
const tool_definition weather{
    "get_weather", "The weather of a city.",
    R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})"};

/// The conversation up to the result of a search, which brings `weather`.
conversation found() {
    conversation chat{"You are an agent.",
                      {{role::user, {text_part{long_paste(20) + "What is the weather in Rome?"}}},
                       {role::assistant, {tool_call_part{"c1", "search", "{}"}}},
                       {role::tool, {tool_result_part{"c1", "", false}}}},
                      {searcher}};
    chat.placed_tools = {{weather, 2, 0, 0}};
    chat.deferred_tools = {weather};
    chat.callable = {searcher, weather};
    return chat;
}

TEST(engine_late_tools, a_tool_can_be_demanded_where_it_stands_and_after_a_restart) {
    semantic::tests::temp_dir dir;
    const auto called = [](const std::string& text) {
        return text.find("\"get_weather\"") != std::string::npos;
    };
    generation_request request = ask("a", found());
    request.form.what = output_form::kind::calls;
    request.form.tools = {"get_weather"};
    int prompt_tokens = 0;
    {
        auto engine = load(options_in(dir.path()));
        conversation head{found().system, {found().messages[0]}, {searcher}};
        auto first = run(*engine, ask("a", head, 1));
        ASSERT_TRUE(first->finished);
        const int head_tokens = first->usage.prompt_tokens;
        auto second = run(*engine, request);
        ASSERT_TRUE(second->finished) << (second->failed ? second->failed->what : "no end");
        EXPECT_TRUE(called(second->text)) << second->text;
        // All but what begins the answer is the first prompt's.
        EXPECT_GE(second->usage.reused_tokens, head_tokens - 8);
        EXPECT_EQ(second->usage.why, miss_reason::none) << second->usage.detail;
        EXPECT_EQ(*engine->count_tokens(found(), {}), second->usage.prompt_tokens);
        prompt_tokens = second->usage.prompt_tokens;
    }
    auto engine = load(options_in(dir.path()));
    auto again = run(*engine, request);
    ASSERT_TRUE(again->finished);
    EXPECT_TRUE(called(again->text)) << again->text;
    EXPECT_EQ(again->usage.prompt_tokens, prompt_tokens);
    EXPECT_GE(again->usage.reused_tokens, prompt_tokens - 1);
}

TEST(engine_late_tools, a_thread_remembers_them) {
    semantic::tests::temp_dir dir;
    generation_request request = ask("t", found(), 8);
    request.message_id = "msg_1";
    request.keeps_thread = true;
    {
        auto engine = load(options_in(dir.path()));
        ASSERT_TRUE(run(*engine, request)->finished);
    }
    auto engine = load(options_in(dir.path()));
    const auto turn = engine->find_thread({}, "msg_1");
    ASSERT_TRUE(turn);
    ASSERT_EQ(turn->tools.told.size(), 1u);
    ASSERT_EQ(turn->tools.deferred.size(), 1u);
    EXPECT_EQ(turn->tools.deferred[0].name, "get_weather");
    ASSERT_TRUE(turn->tools.callable);
    EXPECT_EQ(turn->tools.callable->size(), 2u);
}

/// found() with `count` tools more, before `weather`.
conversation found_many(int count, std::size_t description_bytes = 0) {
    conversation chat = found();
    for (int i = 0; i < count; ++i) {
        tool_definition more = weather;
        more.name = "tool_" + std::to_string(i);
        more.description += std::string(description_bytes, 'x');
        chat.placed_tools.insert(chat.placed_tools.begin() + i, {more, 2, 0, 0});
    }
    return chat;
}

// Their texts are made elsewhere than those of a few, and are the same.
TEST(engine_late_tools, many_at_once_are_told_as_few_are) {
    semantic::tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    for (const int count : {15, 16, 60}) {
        const conversation chat = found_many(count);
        auto answer = run(*engine, ask("a" + std::to_string(count), chat, 1));
        ASSERT_TRUE(answer->finished) << (answer->failed ? answer->failed->what : "no end");
        EXPECT_EQ(answer->usage.prompt_tokens, *engine->count_tokens(chat, {})) << count;
    }
    auto again = run(*engine, ask("a60", found_many(60), 1));
    ASSERT_TRUE(again->finished);
    EXPECT_GE(again->usage.reused_tokens, again->usage.prompt_tokens - 1);
}

TEST(engine_late_tools, more_of_them_than_a_request_may_cost_are_refused) {
    semantic::tests::temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const conversation chat = found_many(10'001);
    auto answer = run(*engine, ask("a", chat, 1));
    ASSERT_TRUE(answer->failed);
    EXPECT_EQ(answer->failed->kind, failure_kind::bad_request);
    EXPECT_NE(answer->failed->what.find("tools that come late"), std::string::npos)
        << answer->failed->what;
    EXPECT_EQ(engine->count_tokens(chat, {}).error().code, storage::errc::bad_value);
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// What a tool loop reuses when its client writes the model's turns in its own words.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/text/output/output_parser.hpp"
#include "engine/text/template/template_families.hpp"
#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;

conversation with_weather_tool(conversation chat) {
    chat.tools = {{"get_weather", "The weather of a city.",
                   R"({"type":"object","properties":{"city":{"type":"string"}},)"
                   R"("required":["city"]})"}};
    return chat;
}

/// The answer as a client sends it back: `reworded` spells the arguments differently.
message sent_back(const std::string& answer, bool reworded) {
    auto parser = make_output_parser("chatml", true);
    auto pieces = parser->push(answer);
    for (auto& piece : parser->finish()) pieces.push_back(std::move(piece));
    message from{role::assistant, {}};
    for (const answer_piece& piece : pieces) {
        if (const auto* text = std::get_if<answer_text>(&piece))
            from.parts.push_back(text_part{text->text});
        if (const auto* call = std::get_if<answer_call>(&piece)) {
            std::string arguments = call->arguments_json;
            if (reworded) arguments.insert(arguments.find('{') + 1, "\n    ");
            from.parts.push_back(tool_call_part{"call_1", call->name, arguments});
        }
    }
    return from;
}

struct loop_result {
    int calls = 0;
    int turns_extended = 0;  // all that was stored was reused
};

bool has_call(const message& from) {
    return std::ranges::any_of(from.parts, [](const content_part& part) {
        return std::holds_alternative<tool_call_part>(part);
    });
}

/// Questions about the weather, the model's calls, their results, the model's answers.
loop_result tool_loop(engine& runner, const std::string& agent, int turns, bool reworded) {
    const char* cities[] = {"Perth", "Lima", "Oslo", "Cairo", "Quito"};
    conversation chat = with_weather_tool({});
    loop_result result;
    for (int i = 0, stored = 0; i < turns; ++i) {
        if (i == 0 || !has_call(chat.messages[chat.messages.size() - 2]))
            chat.messages.push_back(
                {role::user,
                 {text_part{"What is the weather in " + std::string(cities[i % 5]) + "?"}}});
        auto said = run(runner, ask(agent, chat, 60));
        if (!said->finished) return result;
        if (said->usage.reused_tokens == stored) ++result.turns_extended;
        stored = said->usage.prompt_tokens + said->finished->output_tokens - 1;
        chat.messages.push_back(sent_back(said->text, reworded));
        if (!has_call(chat.messages.back())) continue;
        ++result.calls;
        chat.messages.push_back({role::tool, {tool_result_part{"call_1", "sunny"}}});
    }
    return result;
}

TEST(replay, a_tool_loop_whose_client_rewords_the_calls_extends_its_memory_at_every_turn) {
    for (const char* agent : {"a", ""}) {
        temp_dir dir;
        auto engine = load(options_in(dir.path()));
        loop_result result = tool_loop(*engine, agent, 12, true);
        EXPECT_GE(result.calls, 3) << "the model is trained to call this tool";
        EXPECT_EQ(result.turns_extended, 12) << "agent '" << agent << "'";
    }
}

TEST(replay, a_restarted_engine_still_knows_how_the_calls_were_written) {
    temp_dir dir;
    conversation chat = with_weather_tool(chat_of({"What is the weather in Perth?"}));
    int stored = 0;
    {
        auto engine = load(options_in(dir.path()));
        auto said = run(*engine, ask("a", chat, 60));
        stored = said->usage.prompt_tokens + said->finished->output_tokens - 1;
        chat.messages.push_back(sent_back(said->text, true));
        ASSERT_TRUE(has_call(chat.messages.back()));
    }
    chat.messages.push_back({role::tool, {tool_result_part{"call_1", "sunny"}}});
    auto engine = load(options_in(dir.path()));
    EXPECT_EQ(run(*engine, ask("a", chat, 60))->usage.reused_tokens, stored);
}

/// What a client was shown of an answer that a limit cut inside of a call.
message shown_of_cut(const std::string& answer, const conversation& chat) {
    auto parser = make_output_parser(answer_format{.calls = call_format::hermes},
                                     offered_tools(chat.tools), {.shows_progress = true});
    auto pieces = parser->push(answer);
    for (auto& piece : parser->cut_off()) pieces.push_back(std::move(piece));
    tool_call_part call{"call_1", "", ""};
    message from{role::assistant, {}};
    for (const answer_piece& piece : pieces) {
        if (const auto* text = std::get_if<answer_text>(&piece))
            from.parts.push_back(text_part{text->text});
        if (const auto* begun = std::get_if<answer_call_begun>(&piece)) call.name = begun->name;
        if (const auto* part = std::get_if<answer_call_arguments>(&piece))
            call.arguments_json += part->text;
    }
    from.parts.push_back(call);
    return from;
}

TEST(replay, a_call_that_a_limit_cut_is_found_again_as_it_was_shown) {
    for (const char* agent : {"a", ""}) {
        temp_dir dir;
        auto engine = load(options_in(dir.path()));
        conversation chat = chat_of({"Write a story."});
        chat.tools = {{"write", "Writes.",
                       R"({"type":"object","properties":{"text":{"type":"string",)"
                       R"("minLength":4000}},"required":["text"],"additionalProperties":false})"}};
        generation_request first = ask(agent, chat, 40);
        first.form.what = output_form::kind::calls;
        const auto said = run(*engine, first);
        ASSERT_TRUE(said->finished);
        ASSERT_EQ(said->finished->why, stop_reason::max_tokens);
        const int stored = said->usage.prompt_tokens + said->finished->output_tokens - 1;
        const message shown = shown_of_cut(said->text, chat);
        const auto& call = std::get<tool_call_part>(shown.parts.back());
        ASSERT_EQ(call.name, "write") << said->text;
        ASSERT_TRUE(call.arguments_json.starts_with("{\"text\":\"")) << call.arguments_json;
        chat.messages.push_back(shown);
        chat.messages.push_back({role::tool, {tool_result_part{"call_1", "cut off", true}}});
        EXPECT_EQ(run(*engine, ask(agent, chat, 8))->usage.reused_tokens, stored)
            << "agent '" << agent << "'";
    }
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Goal: what an answer costs to read grows with its length alone, whatever a model was made to
// write.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "engine/text/output/output_parser.hpp"
#include "tests/engine/text/written_calls.hpp"

namespace semantic::engine {

namespace {

std::unique_ptr<output_parser> parser_of(const answer_format& format) {
    static const offered_tools tools{written_calls::tools()};
    return make_output_parser(format, tools, {.shows_progress = true});
}

/// Tokens of a few bytes, as a model writes them, without end or sense.
struct hostile {
    const char* head;
    const char* again;
    const char* tail;
};

double seconds_to_read(const answer_format& format, std::string_view text, std::size_t& pieces) {
    const auto parser = parser_of(format);
    const auto begin = std::chrono::steady_clock::now();
    const auto count = [&](const std::vector<answer_piece>& made) {
        for (const answer_piece& piece : made) {
            if (const auto* said = std::get_if<answer_text>(&piece)) pieces += said->text.size();
            if (const auto* part = std::get_if<answer_call_arguments>(&piece))
                pieces += part->text.size();
        }
    };
    for (std::size_t at = 0; at < text.size(); at += 3) count(parser->push(text.substr(at, 3)));
    count(parser->finish());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST(hostile_answers, of_64_kb_are_read_token_by_token_within_a_second) {
    constexpr std::size_t size = 64 << 10;
    const hostile answers[] = {
        {"", "<tool_call>", ""},
        {"", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": \"", ""},
        {"<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": ", "[", ""},
        {"<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": ", "7", ""},
        {"<tool_call>{\"name\": \"ping\", \"arguments\": \"", "x", ""},
        {"<tool_call>{\"name\": \"", "x", ""},
        {"<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>", " ", "x"},
        {"", " ", "{"},
        {"", "\n", "<tool_call>"},
        {"", "```json\n", ""},
        {"```json", "\n", "{"},
        {"```json\n", "{\"name\": \"ping\", \"arguments\": {}}\n", "x"},
        {"", "{\"name\": \"ping\", \"arguments\": {}}", "x"},
        {"{\"name\": \"ping\", \"arguments\": {}}", "\n", "x"},
        {"", "<function=ping><parameter=a>", ""},
        {"<function=search.deep>", "<parameter=limit>1</parameter>", ""},
        {"<function=search.deep><parameter=tags>", "[1, ", ""},
        {"<function=search.deep><parameter=tags>", "</param", "</parameter></function>"},
        {"<function=write_file><parameter=content>", "\n", ""},
        {"<seed:tool_call>", "<function=ping>", ""},
        {"<minimax:tool_call>", "<invoke name=\"", ""},
        {"<｜DSML｜invoke name=\"ping\"><｜DSML｜parameter name=\"a\"", " string", ""},
        {"", "<|tool_call_begin|>ping<|tool_call_argument_begin|>{\"a\": \"", ""},
        {"<|tool_call_start|>[", "ping(a=[", ""},
        {"<|tool_call_start|>[", "ping(), ", ""},
        {"<|tool_call_start|>[ping(a='", "''", ""},
        {"<|tool_call>call:ping{a:", "[", ""},
        {"<|tool_call>call:ping{a:<|\"|>", "<|\"", ""},
        {"[TOOL_CALLS][", "{\"name\": \"ping\", \"arguments\": {}}, ", ""},
        {"[TOOL_CALLS]", "ping[ARGS]", ""},
        {"<|tool_call|>", "[", ""},
        {"", "<｜tool▁calls▁begin｜>", ""},
        {"<｜tool▁calls▁begin｜>", "function<｜tool▁sep｜>", ""},
        {"", "<|channel|>", ""},
        {"<|channel|>analysis<|message|>x<|end|>", "<|star", ""},
        {"<|channel|>commentary to=functions.ping<|message|>{\"a\": \"", "<|en", ""},
        {"<think>", "\n", "x</think>"},
        {"<think>x", "\n", "</think>x"},
        {"<think>x</think>", "\n", "x"},
    };
    double worst = 0;
    std::string slowest;
    for (const hostile& one : answers) {
        std::string text = one.head;
        while (text.size() < size) text += one.again;
        text += one.tail;
        for (const call_format calls : call_formats()) {
            answer_format format{.calls = calls, .thinking = thinking_format::think};
            if (calls == call_format::harmony) format.thinking = thinking_format::harmony;
            std::size_t told = 0;
            const double seconds = seconds_to_read(format, text, told);
            // What is shown of calls that turn out to be none is bounded, too.
            EXPECT_LE(told, 64 * text.size()) << name_of(calls) << ": " << one.head << one.again;
            if (seconds <= worst) continue;
            worst = seconds;
            slowest = std::string(name_of(calls)) + ": " + one.head + one.again;
        }
    }
    EXPECT_LT(worst, 1.0) << slowest;
    RecordProperty("worst_seconds", std::to_string(worst));
}

TEST(hostile_answers, a_parameter_costs_the_same_whatever_its_tools_schema_is) {
    std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer"})";
    for (int i = 0; i < 20'000; ++i)
        schema += ", \"p" + std::to_string(i) + R"(": {"type": ["integer", "null"]})";
    const tool_definition tool{"ping", "", schema + "}}"};
    const offered_tools tools{std::span(&tool, 1)};
    std::string text = "<function=ping>";
    while (text.size() < 64 << 10) text += "<parameter=a>1</parameter>";
    const auto parser = make_output_parser({.calls = call_format::qwen_xml}, tools);
    const auto begin = std::chrono::steady_clock::now();
    parser->push(text + "</function>");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace semantic::engine

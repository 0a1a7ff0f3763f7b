// SPDX-License-Identifier: Apache-2.0
// Goal: the model's parser reads earlier calls that are rendered as text as the same calls.

#include "engine/text/output/call_text.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {
namespace {

const std::vector<tool_call_part> calls{
    {"1", "look", R"({"at":"a \"b\"\n é","n":-7,"yes":true,"none":null,"l":[true,{"a":null}]})"},
    {"2", "odd", R"({"a-b":1})"},
    {"3", "ping", "{}"}};

std::vector<answer_piece> read_back(call_format format, const std::string& text) {
    const auto parser = make_output_parser({.calls = format}, offered_tools::any());
    std::vector<answer_piece> pieces = parser->push(text);
    for (answer_piece& piece : parser->finish()) pieces.push_back(std::move(piece));
    return pieces;
}

TEST(call_text, is_read_back_as_the_calls_that_it_tells) {
    for (const call_format format :
         {call_format::lfm2, call_format::olmo, call_format::granite, call_format::kimi,
          call_format::deepseek, call_format::hermes}) {
        const std::string text = text_of_calls(format, calls);
        const auto pieces = read_back(format, text);
        ASSERT_EQ(pieces.size(), calls.size()) << text;
        for (std::size_t i = 0; i < calls.size(); ++i) {
            const auto* call = std::get_if<answer_call>(&pieces[i]);
            ASSERT_TRUE(call) << text;
            EXPECT_EQ(call->name, calls[i].name) << text;
            EXPECT_EQ(boost::json::parse(call->arguments_json),
                      boost::json::parse(calls[i].arguments_json))
                << text;
        }
    }
}

TEST(call_text, of_python_keeps_the_digits_of_numbers) {
    const std::vector<tool_call_part> one{
        {"1", "f", R"({"a": 123456789012345678901234567890, "b": 1.50, "c": [1e3, "x,y:{}"]})"}};
    EXPECT_EQ(text_of_calls(call_format::lfm2, one),
              "<|tool_call_start|>[f(a=123456789012345678901234567890, b=1.50, c=[1e3, "
              "\"x,y:{}\"])]<|tool_call_end|>");
}

TEST(call_text, of_arguments_that_are_no_json_is_a_call_all_the_same) {
    const std::vector<tool_call_part> cut{{"1", "write", R"({"text": "Once upon)"}};
    for (const call_format format : call_formats()) {
        if (format == call_format::harmony) continue;
        const std::string text = text_of_calls(format, cut);
        EXPECT_NE(text.find("write"), std::string::npos) << text;
        EXPECT_NE(text.find("Once upon"), std::string::npos) << text;
    }
}

TEST(call_text, of_a_form_that_templates_render_is_that_of_hermes) {
    EXPECT_EQ(text_of_calls(call_format::qwen_xml, std::span(calls).last(1)),
              "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>");
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Answers drawn from random logits: whatever a model would rather say, what comes out has the form
// that was asked for.

#include "engine/grammar/forms/answer_grammar.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <random>

#include "engine/text/template/template_families.hpp"
#include "tests/engine/grammar/drawn_answer.hpp"

namespace semantic::engine {
namespace {

using strings = std::vector<std::string>;
using tests::drawn;
using tests::words;

generation_request weather_request(output_form form) {
    generation_request request;
    request.chat.tools = {
        {"weather", "", R"({"type":"object","properties":{"city":{"type":"string","maxLength":8},
            "days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],
            "additionalProperties":false})",
         true},
        {"stop", "", R"({"type":"object","properties":{},"additionalProperties":false})", false}};
    request.form = std::move(form);
    return request;
}

std::shared_ptr<const grammar> compile(const std::string& family,
                                       const generation_request& request) {
    auto made = answer_grammars(words(), family).compile(request);
    if (!made) throw std::runtime_error(made.error().what);
    return made->rules;
}

TEST(answer_grammar, one_named_tool_and_one_call_can_be_asked_for) {
    std::mt19937 random(2);
    auto rules = compile("qwen2", weather_request({.what = output_form::kind::calls,
                                                   .tools = {"stop"},
                                                   .several_calls = false}));
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(drawn(rules, random),
                  "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>");
}

TEST(answer_grammar, llama3_calls_in_its_own_form) {
    std::mt19937 random(3);
    auto rules =
        compile("llama3", weather_request({.what = output_form::kind::calls, .tools = {"stop"}}));
    EXPECT_EQ(drawn(rules, random), "{\"name\": \"stop\", \"parameters\": {}}");
}

TEST(answer_grammar, a_json_answer_is_one_value_that_satisfies_its_schema) {
    std::mt19937 random(4);
    generation_request request;
    request.form = {.what = output_form::kind::json,
                    .schema_json = R"({"type":"array","items":{"enum":["a","b"]},"minItems":2,
                                       "maxItems":4})"};
    auto rules = compile("gemma3", request);
    for (int i = 0; i < 40; ++i) {
        boost::json::array list = boost::json::parse(drawn(rules, random)).as_array();
        EXPECT_GE(list.size(), 2u);
        EXPECT_LE(list.size(), 4u);
    }
    request.form.schema_json.clear();
    for (int i = 0; i < 10; ++i)
        EXPECT_TRUE(boost::json::parse(drawn(compile("gemma3", request), random)).is_object());
}

bool matches(const std::shared_ptr<const grammar>& rules, std::string_view text) {
    grammar_matcher matcher(rules);
    auto state = matcher.start();
    for (char c : text) state = matcher.step(state, static_cast<unsigned char>(c));
    return matcher.accepts(state);
}

TEST(answer_grammar, strict_tools_leave_text_free_and_hold_calls_to_their_schema) {
    auto rules = compile("chatml", weather_request({.what = output_form::kind::strict_calls}));
    auto call = [](const std::string& arguments) {
        return "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + arguments +
               "}\n</tool_call>";
    };
    EXPECT_TRUE(matches(rules, "Just text, with < and <tool but no more."));
    EXPECT_TRUE(matches(rules, ""));
    EXPECT_TRUE(matches(rules, "Well: " + call(R"({"city": "Rome"})")));
    EXPECT_TRUE(matches(rules, call(R"({"city": "Rome"})") + "\n" + call(R"({"city": ""})") + "."));
    EXPECT_FALSE(matches(rules, call(R"({"town": "Rome"})")));
    EXPECT_FALSE(matches(rules, call(R"({"city": "Rome", "days": 15})")));
    EXPECT_FALSE(matches(rules, "<tool_call>oops"));
    EXPECT_FALSE(matches(rules, "<tool_<tool_call>oops"));
    auto llama = compile("llama3", weather_request({.what = output_form::kind::strict_calls}));
    EXPECT_TRUE(matches(llama, "Text { with braces }"));
    EXPECT_FALSE(matches(llama, "{ text"));
    EXPECT_TRUE(matches(llama, R"({"name": "stop", "parameters": {}})"));
}

TEST(answer_grammar, a_json_answer_beside_tools_may_be_a_call_instead) {
    auto rules = compile("chatml", weather_request({.what = output_form::kind::json,
                                                    .schema_json = R"({"type":"null"})",
                                                    .calls_too = true}));
    EXPECT_TRUE(matches(rules, "null"));
    EXPECT_TRUE(
        matches(rules, "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"));
    EXPECT_FALSE(matches(rules, "Sorry."));
}

TEST(answer_grammar, reasoning_may_come_first_where_the_family_has_it) {
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = R"({"type":"null"})"};
    auto rules = compile("qwen3", request);
    EXPECT_TRUE(matches(rules, "null"));
    EXPECT_TRUE(matches(rules, "<think>\nlet </thi me\n</think>\n\nnull"));
    EXPECT_FALSE(matches(rules, "<think>\nnull"));
    EXPECT_FALSE(matches(compile("qwen2", request), "<think>\n</think>\n\nnull"));
    auto opened = compile("qwen3-thinking", request);
    EXPECT_TRUE(matches(opened, "let </thi me\n</think>\n\nnull"));
    EXPECT_FALSE(matches(opened, "null"));
}

TEST(answer_grammar, reasoning_that_the_prompt_has_opened_is_closed_in_every_format) {
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = R"({"type":"null"})"};
    const std::pair<thinking_format, const char*> cases[] = {
        {thinking_format::think, "</think>\n\nnull"},
        {thinking_format::mistral, "[/THINK]null"},
        {thinking_format::gemma4, "<channel|>null"}};
    for (const auto& [thinking, answer] : cases) {
        SCOPED_TRACE(answer);
        answer_format format;
        format.thinking = thinking;
        format.opened = {.when_on = true, .when_off = false};
        answer_grammars grammars(words(), format, "jinja");
        request.thinking.enabled = true;
        const auto opened = grammars.compile(request);
        ASSERT_TRUE(opened) << opened.error().what;
        EXPECT_TRUE(matches(opened->rules, answer));
        EXPECT_FALSE(matches(opened->rules, "null"));
        request.thinking.enabled = false;
        EXPECT_TRUE(matches(grammars.compile(request)->rules, "null"));
    }
}

TEST(answer_grammar, what_cannot_be_held_to_is_refused_by_name) {
    auto refusal = [](const std::string& family, generation_request request) {
        auto made = answer_grammars(words(), family).compile(request);
        return made ? std::string() : made.error().what;
    };
    output_form calls{.what = output_form::kind::calls};
    EXPECT_NE(refusal("gemma3", weather_request(calls)).find("gemma3"), std::string::npos);
    calls.tools = {"nobody"};
    EXPECT_EQ(refusal("chatml", weather_request(calls)), "there is no tool 'nobody'");
    generation_request request = weather_request({.what = output_form::kind::calls});
    request.chat.tools[0].parameters_json = R"({"not":{}})";
    EXPECT_EQ(refusal("chatml", request), "tool 'weather': #: 'not' is not supported");
    request.chat.tools[0].strict = false;
    EXPECT_EQ(refusal("chatml", request), "");
    request.form = {.what = output_form::kind::json, .schema_json = "{"};
    EXPECT_NE(refusal("chatml", request).find("schema is not JSON"), std::string::npos);
    request.form.schema_json = R"({"type":"integer","minimum":2,"maximum":1})";
    EXPECT_EQ(refusal("chatml", request), "no finite answer satisfies the schema");
}

// Goal: a client with tools learns from the reply that no call of this model is ever recognised.
TEST(answer_grammar, tools_whose_calls_nobody_recognises_are_told_and_leave_the_answer_free) {
    answer_grammars unknown(words(), answer_format(), "jinja");
    for (const auto kind : {output_form::kind::free, output_form::kind::strict_calls}) {
        auto request = weather_request({.what = kind});
        const auto form = unknown.compile(request);
        ASSERT_TRUE(form) << form.error().what;
        EXPECT_FALSE(form->rules);
        ASSERT_EQ(form->not_held.size(), 1u);
        EXPECT_NE(form->not_held[0].find("tools: calls are not recognised"), std::string::npos);
        request.chat.tools.clear();
        EXPECT_TRUE(unknown.compile(request)->not_held.empty());
    }
    const auto demanded = unknown.compile(weather_request({.what = output_form::kind::calls}));
    ASSERT_FALSE(demanded);
    EXPECT_NE(demanded.error().what.find("no tool calls"), std::string::npos);
    answer_grammars known(words(), "chatml");
    const auto free = known.compile(weather_request({.what = output_form::kind::free}));
    EXPECT_TRUE(free->not_held.empty());
}

TEST(answer_grammar, a_tool_that_is_not_strict_is_held_to_all_but_what_cannot_be_held) {
    generation_request request = weather_request({.what = output_form::kind::calls});
    request.chat.tools[0].strict = false;
    request.chat.tools[0].parameters_json = R"({"type":"object","properties":{"cities":
        {"type":"array","items":{"type":"string"},"uniqueItems":true}},"required":["cities"],
        "additionalProperties":false})";
    answer_grammars grammars(words(), "chatml");
    const strings left_out{"tool 'weather': #/properties/cities: 'uniqueItems' is not supported"};
    auto call = [](const std::string& arguments) {
        return "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + arguments +
               "}\n</tool_call>";
    };
    for (int time = 0; time < 2; ++time) {  // also where the form was met before
        auto form = grammars.compile(request);
        ASSERT_TRUE(form);
        EXPECT_EQ(form->not_held, left_out);
        EXPECT_TRUE(matches(form->rules, call(R"({"cities": ["Rome"]})")));
        EXPECT_FALSE(matches(form->rules, call(R"({"cities": [1]})")));
        EXPECT_FALSE(matches(form->rules, call("{}")));
    }
    request.chat.tools[0].strict = true;
    auto refused = grammars.compile(request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, left_out[0]);
    request.chat.tools[0] = {"weather", "", R"({"not":{}})", false};
    EXPECT_FALSE(matches(grammars.compile(request)->rules, call("1"))) << "arguments are an object";
    EXPECT_TRUE(matches(grammars.compile(request)->rules, call(R"({"a": 1})")));
}

TEST(answer_grammar, a_schema_that_is_not_strict_is_held_to_all_but_what_cannot_be_held) {
    generation_request request;
    request.form = {.what = output_form::kind::json,
                    .schema_json = R"({"type":"boolean","not":{"const":true}})",
                    .is_strict = false};
    auto form = answer_grammars(words(), "gemma3").compile(request);
    ASSERT_TRUE(form);
    EXPECT_EQ(form->not_held, strings{"#: 'not' is not supported"});
    EXPECT_TRUE(matches(form->rules, "true"));
    EXPECT_FALSE(matches(form->rules, "1"));
    request.form.is_strict = true;
    EXPECT_FALSE(answer_grammars(words(), "gemma3").compile(request));
}

// Six of them, one more than are found out one by one.
TEST(answer_grammar, schemas_that_describe_too_much_leave_the_others_held) {
    generation_request request = weather_request({.what = output_form::kind::calls});
    const std::string large = R"({"const":")" + std::string(410'000, 'a') + "\"}";
    for (int count : {1, 6}) {
        request.chat.tools.resize(2);
        for (int i = 0; i < count; ++i)
            request.chat.tools.push_back({"large" + std::to_string(i), "",
                                          R"({"type":"object","properties":{"a":)" + large + "}}",
                                          false});
        auto form = answer_grammars(words(), "chatml").compile(request);
        ASSERT_TRUE(form) << form.error().what;
        ASSERT_GE(form->not_held.size(), static_cast<std::size_t>(count));
        EXPECT_NE(form->not_held[0].find("describes more"), std::string::npos);
        EXPECT_FALSE(matches(form->rules,
                             "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n"
                             "</tool_call>"))
            << "weather is strict";
        EXPECT_TRUE(matches(form->rules,
                            "<tool_call>\n{\"name\": \"large0\", \"arguments\": {\"b\": 1}}\n"
                            "</tool_call>"));
    }
}

TEST(answer_grammar, a_form_met_before_is_not_compiled_again) {
    answer_grammars grammars(words(), "chatml");
    auto request = weather_request({.what = output_form::kind::calls});
    auto first = grammars.compile(request)->rules;
    EXPECT_EQ(first, grammars.compile(request)->rules);
    request.chat.tools[1].name = "halt";
    EXPECT_NE(first, grammars.compile(request)->rules);
    request.form = {};
    EXPECT_EQ(grammars.compile(request)->rules, nullptr);
}

TEST(answer_grammar, forms_met_lately_give_way_where_they_take_too_much) {
    answer_grammars grammars(words(), "chatml");
    const auto named = [](int number, std::size_t bytes = 0) {
        generation_request request;
        request.form = {.what = output_form::kind::choice,
                        .choices = {"yes", std::to_string(number)}};
        if (bytes > 0)
            request.form = {.what = output_form::kind::json,
                            .schema_json = R"({"type":"null","description":")" +
                                           std::string(bytes, 'x') + R"("})"};
        return request;
    };
    const auto first = grammars.compile(named(0))->rules;
    for (int i = 1; i < 32; ++i) ASSERT_TRUE(grammars.compile(named(i)));
    EXPECT_EQ(grammars.compile(named(0))->rules, first) << "as many are kept";
    for (int i = 32; i < 64; ++i) ASSERT_TRUE(grammars.compile(named(i)));
    const auto again = grammars.compile(named(0))->rules;
    EXPECT_NE(again, first) << "and no more";
    const auto large = grammars.compile(named(0, std::size_t{32} << 20))->rules;
    ASSERT_TRUE(large);
    EXPECT_EQ(grammars.compile(named(0, std::size_t{32} << 20))->rules, large) << "it was the last";
    EXPECT_NE(grammars.compile(named(0))->rules, again) << "it left no place for others";
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Answers that have to be calls, in each of the forms in which models write them: where the marks
// of the form are text, and where they are control tokens.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/text/output/output_parser.hpp"
#include "tests/engine/grammar/drawn_answer.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

namespace json = boost::json;
using tests::drawn;
using tests::words;

/// The tokenizer of the tests with control tokens for the marks of all forms.
const tokenizer& with_marks() {
    static const tests::temp_dir dir;
    static const tokenizer made = [] {
        const std::string from = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny/";
        std::ifstream stream(from + "tokenizer.json");
        json::object file = json::parse(stream).as_object();
        auto id = static_cast<std::int64_t>(file.at("model").at("vocab").as_object().size());
        for (const char* mark : {"<tool_call>",
                                 "</tool_call>",
                                 "[TOOL_CALLS]",
                                 "<｜tool▁calls▁begin｜>",
                                 "<｜tool▁call▁begin｜>",
                                 "<｜tool▁sep｜>",
                                 "<｜tool▁call▁end｜>",
                                 "<｜tool▁calls▁end｜>",
                                 "<|channel|>",
                                 "<|message|>",
                                 "<|constrain|>",
                                 "<|start|>",
                                 "<|end|>",
                                 "<start_function_call>",
                                 "<end_function_call>",
                                 "<escape>",
                                 "<|tool_call>",
                                 "<tool_call|>",
                                 "<|\"|>",
                                 "<|channel>",
                                 "<channel|>",
                                 "[THINK]",
                                 "[/THINK]",
                                 "<|tool_call_start|>",
                                 "<|tool_call_end|>",
                                 "<|tool_calls_section_begin|>",
                                 "<|tool_calls_section_end|>",
                                 "<|tool_call_begin|>",
                                 "<|tool_call_argument_begin|>",
                                 "<seed:tool_call>",
                                 "</seed:tool_call>",
                                 "<seed:think>",
                                 "</seed:think>",
                                 "<minimax:tool_call>",
                                 "</minimax:tool_call>",
                                 "<|tool_call|>",
                                 "<TOOLCALL>",
                                 "</TOOLCALL>",
                                 "<tool_calls>",
                                 "</tool_calls>",
                                 "<|function_call|>"})
            file.at("added_tokens")
                .as_array()
                .push_back({{"id", id++},
                            {"content", mark},
                            {"single_word", false},
                            {"lstrip", false},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", true}});
        std::ofstream(dir.path() + "/tokenizer.json") << json::serialize(file);
        return *tokenizer::load(dir.path());
    }();
    return made;
}

generation_request request_of(output_form form) {
    generation_request request;
    request.chat.tools = {
        {"weather", "", R"({"type":"object","properties":{"city":{"type":"string","maxLength":8},
            "days":{"type":"integer","minimum":1,"maximum":14},
            "units":{"enum":["C","say \"F\"",null]}},"required":["city"],
            "additionalProperties":false})",
         true},
        {"set.all", "", R"({"type":"object","properties":{"on":{"type":"boolean"},
            "in":{"type":"object","properties":{"a-b":{"type":"array","maxItems":2,
            "items":{"type":["number","null"]}}},"required":["a-b"],"additionalProperties":false}},
            "required":["on","in"],"additionalProperties":false})",
         true},
        {"stop", "", R"({"type":"object","properties":{},"additionalProperties":false})", false}};
    request.form = std::move(form);
    return request;
}

std::shared_ptr<const grammar> compiled(const tokenizer& vocabulary, const answer_format& format,
                                        const generation_request& request) {
    auto made = answer_grammars(vocabulary, format, "jinja").compile(request);
    if (!made) throw std::runtime_error(made.error().what);
    return made->rules;
}

std::vector<answer_piece> parsed(const answer_format& format, const generation_request& request,
                                 const std::string& text) {
    auto parser = make_output_parser(format, offered_tools(request.chat.tools));
    std::vector<answer_piece> pieces = parser->push(text);
    for (auto& piece : parser->finish()) pieces.push_back(std::move(piece));
    return pieces;
}

void expect_valid(const answer_call& call, const std::string& text) {
    const json::object arguments = json::parse(call.arguments_json).as_object();
    if (call.name == "stop") {
        EXPECT_TRUE(arguments.empty()) << text;
    } else if (call.name == "weather") {
        EXPECT_TRUE(arguments.at("city").is_string()) << text;
        if (const auto* days = arguments.if_contains("days")) {
            EXPECT_GE(days->to_number<int>(), 1) << text;
            EXPECT_LE(days->to_number<int>(), 14) << text;
        }
        if (const auto* units = arguments.if_contains("units")) {
            EXPECT_TRUE(*units == "C" || *units == "say \"F\"" || units->is_null()) << text;
        }
    } else {
        ASSERT_EQ(call.name, "set.all") << text;
        EXPECT_TRUE(arguments.at("on").is_bool()) << text;
        for (const json::value& item : arguments.at("in").at("a-b").as_array())
            EXPECT_TRUE(item.is_number() || item.is_null()) << text;
    }
}

class held_calls : public testing::TestWithParam<call_format> {
  protected:
    /// Vocabularies in which a form's calls can be written.
    static std::vector<const tokenizer*> vocabularies() {
        if (GetParam() == call_format::harmony) return {&with_marks()};
        return {&words(), &with_marks()};
    }
};

TEST_P(held_calls, are_calls_with_valid_arguments_whatever_the_model_would_rather_say) {
    std::mt19937 random(1);
    const answer_format format{.calls = GetParam()};
    const auto request = request_of({.what = output_form::kind::calls});
    for (const tokenizer* vocabulary : vocabularies()) {
        const auto rules = compiled(*vocabulary, format, request);
        int ended = 0;
        for (int i = 0; i < 30; ++i) {
            const std::string text = drawn(rules, random, *vocabulary);
            if (text.ends_with(tests::goes_on)) continue;  // a call and a call and another one
            ++ended;
            const auto pieces = parsed(format, request, text);
            ASSERT_FALSE(pieces.empty()) << text;
            for (const answer_piece& piece : pieces) {
                const auto* call = std::get_if<answer_call>(&piece);
                ASSERT_TRUE(call) << text;
                expect_valid(*call, text);
            }
        }
        EXPECT_GE(ended, 20);
    }
}

TEST_P(held_calls, are_one_call_to_one_tool_where_a_request_says_so) {
    std::mt19937 random(2);
    const answer_format format{.calls = GetParam()};
    const auto request = request_of(
        {.what = output_form::kind::calls, .tools = {"weather"}, .several_calls = false});
    for (const tokenizer* vocabulary : vocabularies()) {
        const auto rules = compiled(*vocabulary, format, request);
        for (int i = 0; i < 10; ++i) {
            const std::string text = drawn(rules, random, *vocabulary);
            const auto pieces = parsed(format, request, text);
            ASSERT_EQ(pieces.size(), 1u) << text;
            ASSERT_TRUE(std::holds_alternative<answer_call>(pieces[0])) << text;
            EXPECT_EQ(std::get<answer_call>(pieces[0]).name, "weather") << text;
        }
    }
}

TEST_P(held_calls, may_come_amid_text_where_tools_are_strict_and_then_are_valid) {
    std::mt19937 random(3);
    const answer_format format{.calls = GetParam()};
    const auto request = request_of({.what = output_form::kind::strict_calls});
    for (const tokenizer* vocabulary : vocabularies()) {
        const auto rules = compiled(*vocabulary, format, request);
        for (int i = 0; i < 5; ++i) {
            const std::string text = drawn(rules, random, *vocabulary);
            for (const answer_piece& piece : parsed(format, request, text))
                if (const auto* call = std::get_if<answer_call>(&piece)) expect_valid(*call, text);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(all, held_calls,
                         testing::ValuesIn(call_formats().begin(), call_formats().end()),
                         [](const auto& one) {
                             std::string name(name_of(one.param));
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

/// Whether an answer may be the text, control tokens as they are spelled.
bool matches(const tokenizer& vocabulary, const std::shared_ptr<const grammar>& rules,
             const std::string& text) {
    grammar_matcher matcher(rules);
    auto state = matcher.start();
    for (const token_id token : vocabulary.encode(text)) {
        if (vocabulary.is_special(token)) {
            state = matcher.step_token(state, token);
            continue;
        }
        for (const char c : vocabulary.bytes(token))
            state = matcher.step(state, static_cast<unsigned char>(c));
    }
    return matcher.accepts(state);
}

struct example {
    call_format format;
    const char* text;
    bool may_be = true;
};

void expect(const generation_request& request, const std::vector<example>& examples) {
    for (const example& one : examples)
        for (const tokenizer* vocabulary : {&words(), &with_marks()}) {
            if (one.format == call_format::harmony && vocabulary == &words()) continue;
            const auto rules = compiled(*vocabulary, {.calls = one.format}, request);
            EXPECT_EQ(matches(*vocabulary, rules, one.text), one.may_be)
                << one.text << (vocabulary == &words() ? "" : " with control tokens");
        }
}

TEST(held_call, is_written_as_models_of_its_form_have_learnt_it) {
    const auto request = request_of({.what = output_form::kind::calls});
    expect(
        request,
        {{call_format::hermes,
          "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"},
         {call_format::llama3, "{\"name\": \"stop\", \"parameters\": {}}"},
         {call_format::mistral,
          "[TOOL_CALLS][{\"name\": \"stop\", \"arguments\": {}}, "
          "{\"name\": \"stop\", \"arguments\": {}}]"},
         {call_format::harmony,
          "<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{}"},
         {call_format::deepseek,
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
          "{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
          "<｜tool▁sep｜>stop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
         {call_format::deepseek,
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}"
          "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
         {call_format::deepseek,
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"town\": \"Rome\"}"
          "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          false},
         {call_format::lfm2,
          "<|tool_call_start|>[weather(city=\"Rome\", days=3), stop()]<|tool_call_end|>"},
         {call_format::lfm2, "<|tool_call_start|>[weather(days=3)]<|tool_call_end|>", false},
         {call_format::olmo,
          "<function_calls>weather(city=\"Rome\", days=3)\nstop()</function_calls>"},
         {call_format::olmo, "<function_calls>weather(days=3)</function_calls>", false},
         {call_format::olmo, "<function_calls>weather(city=\"Rome\")", false},
         {call_format::kimi,
          "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
          "<|tool_call_argument_begin|>{\"city\": \"Rome\"}<|tool_call_end|><|tool_call_begin|>"
          "functions.stop:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
          "<|tool_calls_section_end|>"},
         {call_format::kimi,
          "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
          "<|tool_call_argument_begin|>{\"town\": \"Rome\"}<|tool_call_end|>"
          "<|tool_calls_section_end|>",
          false},
         {call_format::seed,
          "<seed:tool_call>\n<function=weather>\n{\"city\": \"Rome\"}\n</function>\n"
          "</seed:tool_call>"},
         {call_format::minimax,
          "<minimax:tool_call>\n<invoke name=\"stop\">\n{}\n</invoke>\n<invoke name=\"stop\">\n"
          "{}\n</invoke>\n</minimax:tool_call>"},
         {call_format::dsml,
          "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"stop\">\n{}\n</｜DSML｜invoke>\n"
          "</｜DSML｜function_calls>"},
         {call_format::minicpm, "<function name=\"stop\">{}</function>"},
         {call_format::granite, "<|tool_call|>[{\"name\": \"stop\", \"arguments\": {}}]"},
         {call_format::nemotron,
          "<TOOLCALL>[{\"name\": \"stop\", \"arguments\": {}}, {\"name\": \"stop\", "
          "\"arguments\": {}}]</TOOLCALL>"},
         {call_format::tool_calls,
          "<tool_calls>[{\"name\": \"stop\", \"arguments\": {}}]</tool_calls>"},
         {call_format::gigachat, "<|function_call|>{\"name\": \"stop\", \"arguments\": {}}"},
         {call_format::gemma4, "<|tool_call>call:set.all{on:true,in:{a-b:[1.5,null]}}<tool_call|>"},
         {call_format::gemma4, "<|tool_call>call:set.all{on:1,in:{a-b:[]}}<tool_call|>", false},
         {call_format::tool_code, "```tool_code\nweather(city=\"Rome\", days=3)\nstop()\n```"},
         {call_format::tool_code, "```tool_code\nset.all(on=True, in={\"a-b\": [1.5, None]})\n```"},
         {call_format::tool_code, "```tool_code\nset.all(on=true, in={\"a-b\": []})\n```", false},
         {call_format::tool_code, "```tool_code\nweather(days=3)\n```", false},
         {call_format::tool_code, "```tool_code\nweather(city=\"Rome\", days=15)\n```", false}});
}

TEST(held_call, of_gemma_has_strings_between_its_marks) {
    generation_request request = request_of({.what = output_form::kind::calls});
    request.chat.tools = {{"say", "", R"({"type":"object","properties":{
        "text":{"type":"string"},"to":{"enum":["me",1]}},"additionalProperties":false})"},
                          {"any", "", R"({"type":"object"})"}};
    expect(request,
           {{call_format::function_gemma,
             "<start_function_call>call:say{text:<escape>a \"b\"\n{c}, d<escape>,to:<escape>me"
             "<escape>}<end_function_call>"},
            {call_format::gemma4,
             "<|tool_call>call:say{text:<|\"|>a \"b\"\n{c}, d<|\"|>,to:1}<tool_call|>"},
            {call_format::gemma4, "<|tool_call>call:say{to:<|\"|>you<|\"|>}<tool_call|>", false},
            {call_format::gemma4,
             "<|tool_call>call:any{a_1:<|\"|>x<|\"|>,b:{c:[true,<|\"|><|\"|>]}}<tool_call|>"}});
}

TEST(held_call, of_python_unpacks_what_cannot_be_keywords) {
    generation_request request = request_of({.what = output_form::kind::calls});
    request.chat.tools = {{"any", "", R"({"type":"object"})"},
                          {"none", "", R"({"type":"object","properties":{}})"},
                          {"odd", "", R"({"type":"object","properties":{"a-b":{"type":"integer"}},
            "required":["a-b"],"additionalProperties":false})"},
                          {"self", "", R"({"type":"object","properties":{"in":{"$ref":"#"}},
            "additionalProperties":false})"}};
    const auto call = [](const std::string& text) { return "```tool_code\n" + text + "\n```"; };
    const std::pair<const char*, bool> cases[]{
        {"any(**{\"a\": [1, \"x\"]})", true},
        {"any()", false},
        {"none()", true},
        {"odd(**{\"a-b\": 1})", true},
        {"odd(**{\"a-b\": True})", false},
        {"self(in={\"in\": {}})", true},
        {"self(in=(in=()))", false},
    };
    const auto rules = compiled(words(), {.calls = call_format::tool_code}, request);
    for (const auto& [text, may_be] : cases) {
        EXPECT_EQ(matches(words(), rules, call(text)), may_be) << text;
        if (!may_be) continue;
        const auto pieces = parsed({.calls = call_format::tool_code}, request, call(text));
        ASSERT_EQ(pieces.size(), 1u) << text;
        EXPECT_TRUE(std::holds_alternative<answer_call>(pieces[0])) << text;
    }
}

TEST(held_call, comes_behind_reasoning_in_each_of_its_forms) {
    const auto request = request_of({.what = output_form::kind::calls, .tools = {"stop"}});
    const struct {
        answer_format format;
        const char* text;
        bool may_be = true;
    } cases[] = {
        {{.calls = call_format::mistral, .thinking = thinking_format::mistral},
         "[THINK]well [hm[/THINK][TOOL_CALLS][{\"name\": \"stop\", \"arguments\": {}}]"},
        {{.calls = call_format::gemma4, .thinking = thinking_format::gemma4},
         "<|channel>thought\nwell <hm\n<channel|><|tool_call>call:stop{}<tool_call|>"},
        {{.calls = call_format::gemma4, .thinking = thinking_format::gemma4},
         "<|tool_call>call:stop{}<tool_call|>"},
        {{.calls = call_format::gemma4, .thinking = thinking_format::gemma4, .opened = {true}},
         "well <hm\n<channel|><|tool_call>call:stop{}<tool_call|>"},
        {{.calls = call_format::gemma4, .thinking = thinking_format::gemma4, .opened = {true}},
         "<|tool_call>call:stop{}<tool_call|>",
         false},
        {{.calls = call_format::seed, .thinking = thinking_format::seed},
         "<seed:think>well <hm\n</seed:think>\n<seed:tool_call>\n<function=stop>\n{}\n</function>"
         "\n</seed:tool_call>",
         false},
        {{.calls = call_format::seed, .thinking = thinking_format::seed},
         "<seed:think>well <hm\n</seed:think><seed:tool_call>\n<function=stop>\n{}\n</function>"
         "\n</seed:tool_call>"},
    };
    for (const auto& one : cases)
        for (const tokenizer* vocabulary : {&words(), &with_marks()})
            EXPECT_EQ(matches(*vocabulary, compiled(*vocabulary, one.format, request), one.text),
                      one.may_be)
                << one.text << (vocabulary == &words() ? "" : " with control tokens");
}

}  // namespace
}  // namespace semantic::engine

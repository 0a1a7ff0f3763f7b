// SPDX-License-Identifier: Apache-2.0
// Goal: calls in every format that models write come out the same however the stream is cut, while
// they are written too; what is no call is text, and nothing is lost.

#include <boost/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "engine/text/output/output_parser.hpp"
#include "tests/engine/text/written_calls.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;
using written_calls::answer;
using written_calls::said;

/// What a reader of a stream has seen.
struct seen {
    std::vector<said> said_{};
    std::string thinking{};
    int dropped = 0;
    std::vector<std::string> streamed{};  // the arguments of each call that had begun

    void take(const std::vector<answer_piece>& pieces) {
        for (const answer_piece& piece : pieces) take(piece);
    }
    void take(const answer_piece& piece) {
        if (const auto* text = std::get_if<answer_text>(&piece)) {
            EXPECT_FALSE(open_) << "text inside of a call";
            if (!said_.empty() && !said_.back().is_call)
                said_.back().text += text->text;
            else
                said_.push_back({false, text->text, {}});
        } else if (const auto* thought = std::get_if<answer_thinking>(&piece)) {
            thinking += thought->text;
        } else if (const auto* begun = std::get_if<answer_call_begun>(&piece)) {
            EXPECT_FALSE(open_);
            open_ = begun->name;
            streamed.emplace_back();
        } else if (const auto* part = std::get_if<answer_call_arguments>(&piece)) {
            EXPECT_TRUE(open_);
            streamed.back() += part->text;
        } else if (std::holds_alternative<answer_call_dropped>(piece)) {
            EXPECT_TRUE(open_);
            open_.reset();
            streamed.pop_back();
            ++dropped;
        } else {
            take_call(std::get<answer_call>(piece));
        }
    }
    bool is_in_call() const { return open_.has_value(); }

  private:
    void take_call(const answer_call& call) {
        const json::object arguments = json::parse(call.arguments_json).as_object();
        if (open_) {
            EXPECT_EQ(*open_, call.name);
            EXPECT_EQ(json::parse(streamed.back()), json::value(arguments)) << streamed.back();
            open_.reset();
        }
        said_.push_back({true, call.name, arguments});
    }

    std::optional<std::string> open_;
};

bool operator==(const said& a, const said& b) {
    return a.is_call == b.is_call && a.text == b.text && a.arguments == b.arguments;
}

std::ostream& print(std::ostream& out, const std::vector<said>& all) {
    for (const said& one : all)
        out << (one.is_call ? "C(" : "T(") << one.text << ' ' << one.arguments << ")\n";
    return out;
}

std::string told(const std::vector<said>& all) {
    std::ostringstream out;
    print(out, all);
    return out.str();
}

bool are_same(const std::vector<said>& a, const std::vector<said>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const said& x, const said& y) { return x == y; });
}

std::unique_ptr<output_parser> parser_of(const answer_format& format, bool shows_progress = true) {
    static const offered_tools tools{written_calls::tools()};
    return make_output_parser(format, tools, {.shows_progress = shows_progress});
}

seen read(const answer_format& format, const std::vector<std::string_view>& parts,
          bool shows_progress = true, bool was_cut = false) {
    const auto parser = parser_of(format, shows_progress);
    seen out;
    for (const std::string_view part : parts) out.take(parser->push(part));
    out.take(was_cut ? parser->cut_off() : parser->finish());
    EXPECT_FALSE(out.is_in_call());
    return out;
}

std::vector<std::string_view> bytes_of(std::string_view text) {
    std::vector<std::string_view> out;
    for (std::size_t i = 0; i < text.size(); ++i) out.push_back(text.substr(i, 1));
    return out;
}

answer written(call_format format, unsigned seed) {
    return written_calls::writer(format, seed).write();
}

}  // namespace

class tool_call_formats : public testing::TestWithParam<call_format> {};

TEST_P(tool_call_formats, two_hundred_answers_give_the_calls_that_were_meant) {
    for (unsigned seed = 0; seed < 200; ++seed) {
        const answer one = written(GetParam(), seed);
        const seen got = read({.calls = GetParam()}, {one.written}, false);
        ASSERT_TRUE(are_same(got.said_, one.meant)) << one.written << "\nmeant:\n"
                                                    << told(one.meant) << "got:\n"
                                                    << told(got.said_);
        ASSERT_TRUE(got.streamed.empty());
    }
}

TEST_P(tool_call_formats, two_hundred_answers_cut_at_every_byte_give_the_same) {
    for (unsigned seed = 0; seed < 200; ++seed) {
        const answer one = written(GetParam(), seed);
        const std::string_view text = one.written;
        for (std::size_t cut = 0; cut <= text.size(); ++cut) {
            const seen got = read({.calls = GetParam()}, {text.substr(0, cut), text.substr(cut)});
            ASSERT_TRUE(are_same(got.said_, one.meant)) << text << "\ncut at " << cut << "\ngot:\n"
                                                        << told(got.said_);
            ASSERT_EQ(got.dropped, 0) << text;
        }
    }
}

TEST_P(tool_call_formats, two_hundred_answers_byte_by_byte_stream_their_arguments) {
    for (unsigned seed = 0; seed < 200; ++seed) {
        const answer one = written(GetParam(), seed);
        const seen got = read({.calls = GetParam()}, bytes_of(one.written));
        ASSERT_TRUE(are_same(got.said_, one.meant)) << one.written << "\ngot:\n" << told(got.said_);
        ASSERT_EQ(got.dropped, 0) << one.written;
        const auto calls = static_cast<std::size_t>(std::count_if(
            one.meant.begin(), one.meant.end(), [](const said& s) { return s.is_call; }));
        ASSERT_EQ(got.streamed.size(), calls);
    }
}

// Wherever a limit ends the answer, whole calls stay, half ones are left out, and text stays text.
TEST_P(tool_call_formats, an_answer_cut_off_anywhere_shows_no_half_call) {
    for (unsigned seed = 0; seed < 60; ++seed) {
        const answer one = written(GetParam(), seed);
        for (std::size_t end = 0; end <= one.written.size(); ++end) {
            const std::string_view text = std::string_view(one.written).substr(0, end);
            const seen got = read({.calls = GetParam()}, {text}, true, true);
            std::size_t calls = 0;
            for (const said& part : got.said_) {
                if (!part.is_call) continue;
                const auto meant =
                    std::find_if(one.meant.begin(), one.meant.end(),
                                 [&](const said& m) { return m.is_call && m == part; });
                ASSERT_NE(meant, one.meant.end()) << text << "\n" << told(got.said_);
                ++calls;
            }
            ASSERT_LE(calls, one.meant.size());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(all, tool_call_formats,
                         testing::ValuesIn(call_formats().begin(), call_formats().end()),
                         [](const auto& one) {
                             std::string name(name_of(one.param));
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

namespace {

std::string shown(const seen& got) {
    std::string out;
    if (!got.thinking.empty()) out += "K(" + got.thinking + ")";
    for (const said& one : got.said_)
        out += one.is_call ? "C(" + one.text + " " + json::serialize(one.arguments) + ")"
                           : "T(" + one.text + ")";
    return out;
}

struct example {
    call_format format;
    const char* written;
    const char* expected;
};

void expect(const std::vector<example>& examples) {
    for (const example& one : examples) {
        const answer_format format{.calls = one.format};
        EXPECT_EQ(shown(read(format, {one.written})), one.expected) << one.written;
        EXPECT_EQ(shown(read(format, bytes_of(one.written))), one.expected) << one.written;
    }
}

}  // namespace

TEST(tool_calls, arguments_are_shown_as_far_as_they_are_written) {
    const std::pair<call_format, const char*> begun[]{
        {call_format::hermes,
         "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"content\": "
         "\"one two three"},
        {call_format::qwen_xml, "<function=write_file>\n<parameter=content>\none two three"},
        {call_format::glm,
         "<tool_call>write_file<arg_key>content</arg_key><arg_value>one two three"},
        {call_format::llama3,
         "{\"name\": \"write_file\", \"parameters\": {\"content\": \"one two three"},
        {call_format::mistral, "[TOOL_CALLS]write_file[ARGS]{\"content\": \"one two three"},
        {call_format::deepseek,
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>"
         "{\"content\": \"one two three"},
        {call_format::harmony,
         "<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{\"content\": "
         "\"one two three"},
        {call_format::function_gemma,
         "<start_function_call>call:write_file{content:<escape>one two three"},
        {call_format::gemma4, "<|tool_call>call:write_file{content:<|\"|>one two three"},
        {call_format::tool_code, "```tool_code\nwrite_file(content='one two three"},
        {call_format::tool_code,
         "```tool_code\nprint(write_file(\"/a\", content=\"\"\"one two three"},
        {call_format::tool_code, "```tool_code\nwrite_file(**{\"content\": \"one two three"},
        {call_format::lfm2, "<|tool_call_start|>[write_file(path='/a', content='one two three"},
        {call_format::olmo, "<function_calls>\nwrite_file(path='/a', content='one two three"},
        {call_format::kimi,
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0"
         "<|tool_call_argument_begin|>{\"content\": \"one two three"},
        {call_format::seed,
         "<seed:tool_call>\n<function=write_file>\n<parameter=content>one two three"},
        {call_format::minimax,
         "<minimax:tool_call>\n<invoke name=\"write_file\">\n<parameter name=\"content\">one two "
         "three"},
        {call_format::dsml,
         "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"write_file\">\n<｜DSML｜parameter "
         "name=\"content\" string=\"true\">one two three"},
        {call_format::minicpm,
         "<function name=\"write_file\"><param name=\"content\">one two three"},
        {call_format::granite,
         "<|tool_call|>[{\"name\": \"write_file\", \"arguments\": {\"content\": \"one two three"},
        {call_format::nemotron,
         "<TOOLCALL>[{\"name\": \"write_file\", \"arguments\": {\"content\": \"one two three"},
        {call_format::tool_calls,
         "<tool_calls>\n{\"name\": \"write_file\", \"arguments\": {\"content\": \"one two three"},
        {call_format::gigachat,
         "<|function_call|>{\"name\": \"write_file\", \"arguments\": {\"content\": \"one two "
         "three"},
    };
    for (const auto& [format, text] : begun) {
        const auto parser = parser_of({.calls = format});
        seen got;
        for (const std::string_view byte : bytes_of(text)) got.take(parser->push(byte));
        ASSERT_EQ(got.streamed.size(), 1u) << text;
        EXPECT_TRUE(got.streamed[0].ends_with("\"content\":\"one two three")) << got.streamed[0];
    }
}

TEST(tool_calls, what_is_malformed_becomes_text) {
    expect({
        {call_format::hermes, "<tool_call>{\"name\": \"ping\", \"arguments\": {1}}</tool_call>.",
         "T(<tool_call>{\"name\": \"ping\", \"arguments\": {1}}</tool_call>.)"},
        {call_format::hermes, "<tool_call>[]", "T(<tool_call>[])"},
        {call_format::qwen_xml, "<function=ping>oops</function>",
         "T(<function=ping>oops</function>)"},
        {call_format::qwen_xml, "a <function=> b", "T(a <function=> b)"},
        {call_format::glm, "<tool_call>a b c</tool_call>", "T(<tool_call>a b c</tool_call>)"},
        {call_format::mistral, "[TOOL_CALLS] of <b>", "T([TOOL_CALLS] of <b>)"},
        {call_format::mistral, "[TOOL_CALLS][{\"name\": \"ping\", \"arguments\": {}}, {\"x\"]",
         "C(ping {})T(, {\"x\"])"},
        {call_format::deepseek, "<｜tool▁call▁begin｜>{}", "T(<｜tool▁call▁begin｜>{})"},
        {call_format::function_gemma, "<start_function_call>call:ping{]",
         "T(<start_function_call>call:ping{])"},
        {call_format::gemma4, "<|tool_call>fall:ping{}", "T(<|tool_call>fall:ping{})"},
        {call_format::tool_code, "```tool_code\nx = 1\n```", "T(```tool_code\nx = 1\n```)"},
        {call_format::tool_code, "```tool_code\nping(x)\n```", "T(```tool_code\nping(x)\n```)"},
        {call_format::tool_code, "```tool_code\nping(a=1 + 2)\n```",
         "T(```tool_code\nping(a=1 + 2)\n```)"},
        {call_format::tool_code, "```tool_code\nping(*a)\n```", "T(```tool_code\nping(*a)\n```)"},
        {call_format::tool_code, "```tool_code\nprint(ping(), 1)\n```",
         "T(```tool_code\nprint(ping(), 1)\n```)"},
        {call_format::olmo, "<function_calls>\nx = 1\n</function_calls>",
         "T(<function_calls>\nx = 1\n</function_calls>)"},
        {call_format::olmo, "<function_calls></function_calls>.",
         "T(<function_calls></function_calls>.)"},
        {call_format::lfm2, "<|tool_call_start|>[x = 1]<|tool_call_end|>",
         "T(<|tool_call_start|>[x = 1]<|tool_call_end|>)"},
        {call_format::lfm2, "<|tool_call_start|>[]<|tool_call_end|>.",
         "T(<|tool_call_start|>[]<|tool_call_end|>.)"},
        {call_format::kimi, "<|tool_calls_section_begin|>none<|tool_calls_section_end|>{}",
         "T(<|tool_calls_section_begin|>none<|tool_calls_section_end|>{})"},
        {call_format::kimi, "<|tool_call_begin|>a b<|tool_call_argument_begin|>{}",
         "T(<|tool_call_begin|>a b<|tool_call_argument_begin|>{})"},
        {call_format::seed, "<seed:tool_call>ping()</seed:tool_call>",
         "T(<seed:tool_call>ping()</seed:tool_call>)"},
        {call_format::minimax, "<minimax:tool_call>\n<invoke>ping</invoke>",
         "T(<minimax:tool_call>\n<invoke>ping</invoke>)"},
        {call_format::minimax, "<invoke name=\"ping\">now</invoke>",
         "T(<invoke name=\"ping\">now</invoke>)"},
        {call_format::dsml, "<｜DSML｜invoke name=\"ping\">\n<｜DSML｜parameter name=\"a\"",
         "T(<｜DSML｜invoke name=\"ping\">\n<｜DSML｜parameter name=\"a\")"},
        {call_format::minicpm, "<function name=\"ping\"><parameter name=\"a\">1</parameter>",
         "T(<function name=\"ping\"><parameter name=\"a\">1</parameter>)"},
        {call_format::granite, "<|tool_call|>None", "T(<|tool_call|>None)"},
        {call_format::nemotron, "<TOOLCALL>[]</TOOLCALL>", "T(<TOOLCALL>[]</TOOLCALL>)"},
        {call_format::tool_calls, "<tool_calls>[{\"name\": \"ping\"}]</tool_calls>",
         "T(<tool_calls>[{\"name\": \"ping\"}]</tool_calls>)"},
        {call_format::gigachat, "<|function_call|>ping", "T(<|function_call|>ping)"},
        {call_format::llama3, "{\"name\": \"ping\", \"parameters\": {\"a\": }}",
         "T({\"name\": \"ping\", \"parameters\": {\"a\": }})"},
        {call_format::harmony, "<|channel|>commentary to=functions.ping<|message|>{\"a\"}<|call|>",
         "T({\"a\"})"},
    });
}

TEST(tool_calls, a_call_that_breaks_after_it_was_shown_is_taken_back_and_becomes_text) {
    const char* written =
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par\" "
        "oops}}</tool_call>";
    const auto parser = parser_of({.calls = call_format::hermes});
    std::vector<answer_piece> out;
    for (const std::string_view byte : bytes_of(written))
        for (answer_piece& piece : parser->push(byte)) out.push_back(std::move(piece));
    for (answer_piece& piece : parser->finish()) out.push_back(std::move(piece));
    ASSERT_GE(out.size(), 4u);
    EXPECT_EQ(out[0], answer_piece(answer_call_begun{"get_weather"}));
    EXPECT_EQ(std::count(out.begin(), out.end(), answer_piece(answer_call_dropped{})), 1);
    std::string shown_text, arguments;
    for (const answer_piece& piece : out) {
        if (const auto* text = std::get_if<answer_text>(&piece)) shown_text += text->text;
        if (const auto* part = std::get_if<answer_call_arguments>(&piece)) arguments += part->text;
    }
    EXPECT_EQ(arguments, "{\"city\":\"Par\"");
    EXPECT_EQ(shown_text, written);
}

TEST(tool_calls, a_call_is_told_once_it_is_certain_and_never_for_what_is_no_tool) {
    const auto parser = parser_of({.calls = call_format::hermes});
    EXPECT_TRUE(parser->push("<tool_call>{\"name\": \"get_weather\"").empty());
    EXPECT_TRUE(parser->push(", \"arguments\": ").empty());
    const std::vector<answer_piece> begun = parser->push("{\"city\": \"P");
    ASSERT_EQ(begun.size(), 2u);
    EXPECT_EQ(begun[0], answer_piece(answer_call_begun{"get_weather"}));
    EXPECT_EQ(begun[1], answer_piece(answer_call_arguments{"{\"city\":\"P"}));
    EXPECT_EQ(parser->push("aris\"").front(), answer_piece(answer_call_arguments{"aris\""}));
    const auto other = parser_of({.calls = call_format::hermes});
    const auto all = other->push("<tool_call>{\"name\": \"nobody\", \"arguments\": {\"a\": 1}}");
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0], answer_piece(answer_call{"nobody", "{\"a\": 1}"}));
}

TEST(tool_calls, the_liberties_that_models_take_are_taken_as_calls) {
    expect({
        {call_format::hermes,
         "<tool_call>\n{{\"name\": \"ping\", \"arguments\": {}}}\n</tool_call>", "C(ping {})"},
        {call_format::hermes, "<tool_call>{\"name\": \"ping\", \"arguments\": {}\n</tool_call>x",
         "C(ping {})T(x)"},
        {call_format::hermes, "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_response>",
         "C(ping {})"},
        {call_format::hermes,
         "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
         "C(f {\"a\":1})"},
        {call_format::hermes,
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>",
         "C(f {\"a\":\"x\\ny\"})"},
        {call_format::qwen_xml,
         "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>", "C(ping {})"},
        {call_format::qwen_xml, "<function=ping>\n</tool_call>", "C(ping {})"},
        {call_format::qwen_xml,
         "<tool_call>\n<function=write_file>\n<parameter=path>\n12\n</parameter>\n",
         "C(write_file {\"path\":\"12\"})"},
        {call_format::glm, "<tool_call>ping</tool_call>", "C(ping {})"},
        {call_format::qwen_xml, "<function=ping>\n{\"a\": 1}\n</function>\n</tool_call>.",
         "C(ping {\"a\":1})T(.)"},
        {call_format::minimax,
         "<invoke name=\"ping\">{}</invoke>\n<invoke name=\"ping\">\n</invoke>"
         "\n</minimax:tool_call>.",
         "C(ping {})C(ping {})T(.)"},
        {call_format::minimax,
         "<minimax:tool_call>{\"name\": \"ping\", \"arguments\": {}}</minimax:tool_call>",
         "C(ping {})T(</minimax:tool_call>)"},
        {call_format::seed,
         "<seed:tool_call><function=search.deep><parameter=filters>{'a': [True, None]}</parameter>"
         "<parameter=tags>['x', \"y\"]</parameter></function></seed:tool_call>",
         "C(search.deep {\"filters\":{\"a\":[true,null]},\"tags\":[\"x\",\"y\"]})"},
        {call_format::dsml,
         "<｜DSML｜invoke name=\"write_file\"><｜DSML｜parameter name=\"path\">7"
         "</｜DSML｜parameter><｜DSML｜parameter name=\"append\" string=\"false\">true"
         "</｜DSML｜parameter><｜DSML｜parameter name=\"odd\" string=\"true\">1</｜DSML｜parameter>"
         "</｜DSML｜invoke>",
         "C(write_file {\"path\":\"7\",\"append\":true,\"odd\":\"1\"})"},
        {call_format::kimi, "<|tool_call_begin|>ping<|tool_call_argument_begin|>{}", "C(ping {})"},
        {call_format::lfm2, "<|tool_call_start|>ping()<|tool_call_end|>", "C(ping {})"},
        {call_format::olmo, "<function_calls>\nping()\nping(a=null)\n</function_calls>\nDone.",
         "C(ping {})C(ping {\"a\":null})T(\nDone.)"},
        {call_format::minicpm,
         "<function name=\"write_file\"><param "
         "name=\"path\"><![CDATA[a</param>]]b]]></param><param "
         "name=\"content\"><![CDAT</param></function>",
         "C(write_file {\"path\":\"a</param>]]b\",\"content\":\"<![CDAT\"})"},
        {call_format::granite, "<|tool_call|>{\"name\": \"ping\", \"arguments\": {}}",
         "C(ping {})"},
        {call_format::mistral, "[TOOL_CALLS]ping{}", "C(ping {})"},
        {call_format::tool_code, "```tool_code\nget_weather(\"Rome\", 3)\nping()\n```\nDone.",
         "C(get_weather {\"city\":\"Rome\",\"days\":3})C(ping {})T(\nDone.)"},
        {call_format::tool_code,
         "```tool_code\nget_weather( **{'city': \"a\\'\\d\", }, days = (+1_0, -2., [None,], {}), )"
         "\n```",
         "C(get_weather {\"city\":\"a'\\\\d\",\"days\":[10,-2E0,[null],{}]})"},
    });
}

TEST(tool_calls, parameters_between_tags_are_of_the_types_that_the_schema_says) {
    expect({
        {call_format::qwen_xml,
         "<function=search.deep>\n<parameter=limit>\nnull\n</parameter>\n<parameter=query>\nnull\n"
         "</parameter>\n<parameter=filters>\n{\"a\": [1]}\n</parameter>\n<parameter=odd>\n7\n"
         "</parameter>\n<parameter=score>\nhigh\n</parameter>\n</function>",
         "C(search.deep {\"limit\":null,\"query\":\"null\",\"filters\":{\"a\":[1]},\"odd\":7,"
         "\"score\":\"high\"})"},
        {call_format::glm,
         "<tool_call>write_file<arg_key>append</arg_key><arg_value>True</arg_value><arg_key>content"
         "</arg_key><arg_value>True</arg_value></tool_call>",
         "C(write_file {\"append\":true,\"content\":\"True\"})"},
    });
}

TEST(tool_calls, json_alone_or_in_a_fence_of_its_own_is_a_call_if_it_names_a_tool) {
    const char* call = "{\"name\": \"ping\", \"arguments\": {}}";
    const std::string bare = call;
    const std::string fenced = "```json\n" + bare + "\n```";
    const struct {
        std::string written, expected;
    } cases[] = {
        {bare, "C(ping {})"},
        {" \n" + bare + "\n", "C(ping {})"},
        {bare + "\n" + bare, "C(ping {})C(ping {})"},
        {fenced, "C(ping {})"},
        {"Sure:\n" + fenced + "\nDone.", "T(Sure:\n)C(ping {})T(\nDone.)"},
        {"```\n" + bare + "\n```", "C(ping {})"},
        {"```json\n" + bare + "\n" + bare + "\n```", "C(ping {})C(ping {})"},
        {"```json\n" + bare, "C(ping {})"},
        {bare + " is how to call it", "T(" + bare + " is how to call it)"},
        {"Write " + bare, "T(Write " + bare + ")"},
        {"```json\n" + bare + ",\n```", "T(```json\n" + bare + ",\n```)"},
        {"```json\n{\"name\": \"Ada\", \"arguments\": {}}\n```",
         "T(```json\n{\"name\": \"Ada\", \"arguments\": {}}\n```)"},
        {"{\"name\": \"ping\", \"born\": 1}", "T({\"name\": \"ping\", \"born\": 1})"},
        {"{\"name\": \"ping\"}", "T({\"name\": \"ping\"})"},
        {"```cpp\n{ int x; }\n```", "T(```cpp\n{ int x; }\n```)"},
        {"{ not json\n<tool_call>" + bare + "</tool_call>", "T({ not json)C(ping {})"},
    };
    for (const auto& c : cases) {
        const answer_format hermes{.calls = call_format::hermes};
        EXPECT_EQ(shown(read(hermes, {c.written})), c.expected) << c.written;
        EXPECT_EQ(shown(read(hermes, bytes_of(c.written))), c.expected) << c.written;
    }
    const seen streamed = read({.calls = call_format::hermes}, bytes_of(fenced + "\n" + fenced));
    EXPECT_EQ(streamed.streamed.size(), 2u);
    EXPECT_EQ(streamed.dropped, 0);
    EXPECT_EQ(read({.calls = call_format::hermes}, bytes_of(bare + "x")).dropped, 1);
    const std::string half = bare + "\n{\"name\": \"get_weather\", \"arguments\": {\"ci";
    EXPECT_EQ(shown(read({.calls = call_format::hermes}, bytes_of(half), true, true)),
              "C(ping {})");
    const auto untold = make_output_parser({.calls = call_format::hermes}, offered_tools::any());
    EXPECT_EQ(untold->push(bare), std::vector<answer_piece>{answer_text{bare}});
}

TEST(tool_calls, reasoning_is_told_apart_in_each_form) {
    const std::string call = "<tool_call>{\"name\": \"ping\"}</tool_call>";
    const struct {
        answer_format format;
        std::string written, expected;
    } cases[] = {
        {{call_format::hermes, thinking_format::think},
         "<think>\nhm\n</think>\n\n" + call,
         "K(hm)C(ping {})"},
        {{call_format::hermes, thinking_format::think, {true, false}},
         "hm\n</think>" + call,
         "K(hm)C(ping {})"},
        {{call_format::hermes, thinking_format::think, {true, false}},
         "<think>hm</think>a",
         "K(hm)T(a)"},
        {{call_format::mistral, thinking_format::mistral},
         "[THINK]hm[/THINK]a[TOOL_CALLS]ping{}",
         "K(hm)T(a)C(ping {})"},
        {{call_format::gemma4, thinking_format::gemma4},
         "<|channel>thought\nhm<channel|><|tool_call>call:ping{}<tool_call|>",
         "K(hm)C(ping {})"},
        {{call_format::seed, thinking_format::seed},
         "<seed:think>\nhm\n\n</seed:think>\n<seed:tool_call><function=ping></function>"
         "</seed:tool_call>",
         "K(hm)C(ping {})"},
        {{call_format::minimax, thinking_format::think, {true, true}},
         "hm\n</think>\n\n<minimax:tool_call>\n<invoke name=\"ping\">\n</invoke>\n"
         "</minimax:tool_call>",
         "K(hm)C(ping {})"},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(shown(read(c.format, {c.written})), c.expected) << c.written;
        EXPECT_EQ(shown(read(c.format, bytes_of(c.written))), c.expected) << c.written;
    }
    const answer_format switched{call_format::hermes, thinking_format::think, {true, false}};
    const auto off = make_output_parser(switched, offered_tools::any(), {.thinks = false});
    EXPECT_EQ(off->push("hm"), std::vector<answer_piece>{answer_text{"hm"}});
}

TEST(tool_calls, text_that_opens_calls_again_and_again_is_read_in_no_time) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "<function=ping><parameter=a>";
    const seen got = read({.calls = call_format::qwen_xml}, {text}, false);
    EXPECT_EQ(shown(got), "T(" + text + ")");
}

TEST(tool_calls, formats_are_found_by_the_marks_of_a_template) {
    const struct {
        const char* source;
        call_format calls;
        thinking_format thinking;
    } cases[] = {
        {"{{ '<tool_call>' }}", call_format::hermes, thinking_format::none},
        {"<tool_call>\n<function=example><parameter=x>", call_format::qwen_xml,
         thinking_format::none},
        {"<tool_call>{{ name }}<arg_key>k</arg_key><arg_value>v</arg_value></think>",
         call_format::glm, thinking_format::think},
        {"<|start_header_id|> <|python_tag|>", call_format::llama3, thinking_format::none},
        {"[TOOL_CALLS] [THINK]", call_format::mistral, thinking_format::mistral},
        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜> '</think>'", call_format::deepseek,
         thinking_format::think},
        {"<|channel|>analysis<|message|> functions.", call_format::harmony,
         thinking_format::harmony},
        {"<start_function_call>call:", call_format::function_gemma, thinking_format::none},
        {"<|tool_call>call: <|channel>thought", call_format::gemma4, thinking_format::gemma4},
        {"```tool_code", call_format::tool_code, thinking_format::none},
        {"<functions></functions> <function_calls>", call_format::olmo, thinking_format::none},
        {"<seed:tool_call><function=f><parameter=p> '</seed:think>'", call_format::seed,
         thinking_format::seed},
        {"List of tools: <|tool_list_start|>[", call_format::lfm2, thinking_format::none},
        {"respond only with <|tool_call|> followed by", call_format::granite,
         thinking_format::none},
        {"{{ content }}", call_format::none, thinking_format::none},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(found_in_template(c.source).calls, c.calls) << c.source;
        EXPECT_EQ(found_in_template(c.source).thinking, c.thinking) << c.source;
    }
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Grammars in GBNF, expressions and choices: what they let through, and what is wrong with them.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/grammar/forms/code_points.hpp"
#include "engine/grammar/forms/gbnf.hpp"
#include "engine/grammar/forms/text_pattern.hpp"
#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/json_grammar.hpp"
#include "engine/grammar/string_pattern.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {
namespace {

using symbol = grammar_builder::symbol;

std::shared_ptr<const grammar> built(const std::function<symbol(grammar_builder&)>& make) {
    grammar_builder out;
    const symbol root = out.any_of({{make(out)}});
    return std::make_shared<const grammar>(std::move(out).build(root));
}

std::shared_ptr<const grammar> of_gbnf(const std::string& text) {
    return built([&](grammar_builder& out) { return read_gbnf(out, text); });
}

bool matches(const std::shared_ptr<const grammar>& rules, const std::string& text) {
    grammar_matcher matcher(rules);
    grammar_matcher::state at = matcher.start();
    for (const char c : text) at = matcher.step(at, static_cast<unsigned char>(c));
    return matcher.accepts(at);
}

/// What is wrong with a grammar; empty when nothing is.
std::string fault(const std::string& text) {
    try {
        of_gbnf(text);
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return {};
}

std::string utf8_of(std::uint32_t c) {
    std::string out;
    if (c < 0x80) {
        out += static_cast<char>(c);
    } else if (c < 0x800) {
        out += static_cast<char>(0xC0 | (c >> 6));
        out += static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        out += static_cast<char>(0xE0 | (c >> 12));
        out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
    } else {
        out += static_cast<char>(0xF0 | (c >> 18));
        out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
        out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
    }
    return out;
}

// The example grammar for JSON that llama.cpp's users know, in our words.
const char* const json_rules = R"(
# comments, and rules over several lines
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)";

TEST(grammar, rules_that_wait_for_each_other_are_completed_in_one_pass) {
    // Each is made of the one before it, and they lie at both ends in turn: going through all of
    // them again and again, in whichever direction, would complete one more each time.
    constexpr std::size_t count = 100'000;
    grammar_builder out;
    std::vector<symbol> rules;
    for (std::size_t i = 0; i < count; ++i) rules.push_back(out.new_rule());
    const auto at = [&](std::size_t i) { return rules[i % 2 == 0 ? i / 2 : count - 1 - i / 2]; };
    out.add(at(0), out.literal("ab"));
    for (std::size_t i = 1; i < count; ++i) out.add(at(i), {at(i - 1)});
    const auto begin = std::chrono::steady_clock::now();
    const grammar made = std::move(out).build(at(count - 1));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(made.bytes_least[made.root], 2);
}

TEST(grammar, rules_take_at_least_what_their_shortest_way_takes) {
    grammar_builder out;
    const symbol loop = out.new_rule(), never = out.new_rule(), pair = out.new_rule();
    const auto a = out.literal("a");
    out.add(loop, a + loop + pair);
    out.add(loop, a + a + a);
    out.add(pair, {loop, loop});
    out.add(pair, {never});
    out.add(never, a + never);
    const grammar made = std::move(out).build(pair);
    EXPECT_EQ(made.bytes_least[loop.index], 3);
    EXPECT_EQ(made.bytes_least[pair.index], 6);
    EXPECT_EQ(made.bytes_least[never.index], grammar::bytes_far);
    EXPECT_TRUE(made.rules[never.index].empty());
    EXPECT_EQ(made.rules[pair.index].size(), 1u);
}

TEST(grammar, a_text_is_no_longer_than_a_grammar_may_be) {
    grammar_builder out;
    const std::string most(grammar_builder::symbols_max, 'a');
    EXPECT_EQ(out.literal(most).size(), most.size());
    EXPECT_THROW(out.literal(most + "a"), grammar_too_large);
}

TEST(gbnf, a_grammar_of_json_lets_json_through) {
    const auto rules = of_gbnf(json_rules);
    EXPECT_FALSE(recurses_on_the_left(*rules));
    for (const char* good :
         {"{}", R"({"a": 1})", R"({"a":[1, -2.5e3,"x\n\u00e9",{"b":null}], "ü":"日"})"})
        EXPECT_TRUE(matches(rules, good)) << good;
    for (const char* bad : {"", "[]", "{", R"({"a"})", R"({"a":01})", R"({"a":"\x"})", "{}x"})
        EXPECT_FALSE(matches(rules, bad)) << bad;
}

struct case_of {
    const char* rules;
    std::vector<const char*> good, bad;
};

TEST(gbnf, each_part_of_the_notation_means_what_it_says) {
    const std::vector<case_of> cases{
        {R"(root ::= "a" "b" | "c")", {"ab", "c"}, {"a", "abc", ""}},
        {"root ::= \"a\" |\n  \"b\"\n  | \"c\" # end", {"a", "b", "c"}, {"ab"}},
        {"root ::= x-1 y_2\r\nx-1 ::= \"x\"\r\ny_2 ::= \"y\"", {"xy"}, {"x"}},
        {"root ::= [a-cx] [^a-c\\n]", {"ad", "xé", "b日", "c😀"}, {"aa", "a\n", "dd", "a"}},
        {R"(root ::= [\]\-\\^-])", {"]", "-", "\\", "^"}, {"a", ""}},
        {R"(root ::= "\t\"\x41\u00e9\U0001F600\[")", {"\t\"Aé😀["}, {"A"}},
        {"root ::= .", {"a", "\n", "é", "😀"}, {"", "ab", "\xC3", "\xED\xA0\x80"}},
        {R"(root ::= "a"? "b"* "c"+)", {"c", "abbc", "ccc"}, {"ab", "aac", ""}},
        {R"(root ::= "a"{2} "b"{1,} "c"{0,2} "d"{,1})",
         {"aab", "aabbccd"},
         {"ab", "aabccc", "aabdd"}},
        {R"(root ::= ("a" | "b" "c")+ )", {"a", "bc", "abca"}, {"b", "ac"}},
        {"root ::= \"x\" root | \"\"", {"", "x", "xxxx"}, {"y"}},
        {"root ::= (\"a\"? \"b\"?)* \"c\"", {"c", "abac"}, {"ab"}},
        {"root ::= a b\na ::= \"\" | \"a\"\nb ::= \"b\"", {"b", "ab"}, {"a"}},
        {"root ::= \"日本\" [ぁ-ん]", {"日本の"}, {"日本", "日本日"}},
    };
    for (const case_of& one : cases) {
        const auto rules = of_gbnf(one.rules);
        for (const char* good : one.good) EXPECT_TRUE(matches(rules, good)) << one.rules << good;
        for (const char* bad : one.bad) EXPECT_FALSE(matches(rules, bad)) << one.rules << bad;
    }
}

TEST(gbnf, what_is_no_grammar_is_told_with_its_place) {
    const std::vector<std::pair<const char*, const char*>> cases{
        {"", "there is no rule 'root'"},
        {"a ::= \"x\"", "there is no rule 'root'"},
        {"root ::= a\n\nb ::= \"x\"", "line 1, column 10: there is no rule 'a'"},
        {"root ::= \"a\"\nroot ::= \"b\"",
         "line 2, column 1: there is a rule of this name already"},
        {"root = \"a\"", "line 1, column 6: expected '::='"},
        {"root ::= \"a", "line 1, column 10: a literal without its end"},
        {"root ::= [a", "line 1, column 10: a class without its end"},
        {"root ::= (\"a\"", "line 1, column 14: expected ')'"},
        {"root ::= \"a\" )", "line 1, column 14: expected the end of the line"},
        {"root ::= [b-a]", "line 1, column 14: a range whose end is before its beginning"},
        {"root ::= \"\\q\"", "line 1, column 12: an unknown escape"},
        {"root ::= \"\\u12\"", "line 1, column 15: expected 4 hexadecimal digits"},
        {"root ::= \"\\ud800\"", "line 1, column 17: a number that is no character"},
        {"root ::= \"a\"{2,1}", "line 1, column 18: the upper bound is below the lower one"},
        {"root ::= \"a\"{}", "line 1, column 14: expected a number"},
        {"root ::= \"a\"{1", "line 1, column 15: expected '}'"},
        {"root ::= \"\xFF\"", "line 1, column 11: a byte that is no UTF-8"},
        {"root ::= <think>", "line 1, column 10: tokens by number or name are not supported"},
        {"root ::= \"a\" * ?x", "line 1, column 14: expected the end of the line"},
        {"start: \"a\"", "line 1, column 6: expected '::='"},
    };
    for (const auto& [text, what] : cases) EXPECT_EQ(fault(text), what) << text;
}

TEST(gbnf, limits_are_taken_and_refused_one_above) {
    const auto groups = [](int depth) {
        std::string text = "root ::= ";
        for (int i = 0; i < depth; ++i) text += "(";
        text += "\"a\"";
        for (int i = 0; i < depth; ++i) text += ")";
        return text;
    };
    EXPECT_EQ(fault(groups(100)), "");
    EXPECT_NE(fault(groups(101)).find("more than 100 groups"), std::string::npos);
    EXPECT_EQ(fault("root ::= \"a\"{10000}"), "");
    EXPECT_NE(fault("root ::= \"a\"{10001}").find("more than 10000 repetitions"),
              std::string::npos);
    const auto rules = [](int count) {
        std::string text = "root ::= \"a\"\n";
        for (int i = 1; i < count; ++i) text += "r" + std::to_string(i) + " ::= \"a\"\n";
        return text;
    };
    EXPECT_EQ(fault(rules(2000)), "");
    EXPECT_NE(fault(rules(2001)).find("more than 2000 rules"), std::string::npos);
    const auto long_text = [](std::size_t bytes) {
        const std::string text = "root ::= \"a\" #";
        return text + std::string(bytes - text.size(), 'x');
    };
    EXPECT_EQ(fault(long_text(gbnf_bytes_max)), "");
    EXPECT_NE(fault(long_text(gbnf_bytes_max + 1)).find("at most 65536 are read"),
              std::string::npos);
    EXPECT_NE(fault("root ::= ((\"a\"{9999}){9999} \"b\"){9999} \"c\"{9999}"
                    " ([a-z]{9999} [é-ü]{9999}){9999}" +
                    [] {
                        std::string more;
                        for (int i = 0; i < 60; ++i) more += " \"abc\"{9999}";
                        return more;
                    }())
                  .find("more than an answer can be held to"),
              std::string::npos);
}

TEST(gbnf, what_begins_with_itself_is_found) {
    for (const char* endless :
         {"root ::= root \"a\" | \"b\"", "root ::= a \"x\" | \"y\"\na ::= root \"z\" | \"w\"",
          "root ::= e root \"a\" | \"b\"\ne ::= \"\" | \"e\"",
          "root ::= \"x\" b\nb ::= b b | \"b\""})
        EXPECT_TRUE(recurses_on_the_left(*of_gbnf(endless))) << endless;
    for (const char* fine : {"root ::= \"a\" root \"b\" | \"\"", "root ::= (\"a\"?)* \"b\"",
                             "root ::= e root2\nroot2 ::= \"a\" root | \"\"\ne ::= \"\" | \"e\""})
        EXPECT_FALSE(recurses_on_the_left(*of_gbnf(fine))) << fine;
}

TEST(gbnf, deep_and_ambiguous_grammars_end_in_an_error_and_not_in_a_crash) {
    const auto begin = [](const char* rules) { grammar_matcher(of_gbnf(rules)).start(); };
    // Ten thousand times nothing, and far more of it.
    EXPECT_NO_THROW(begin("root ::= (\"a\"?){10000}"));
    EXPECT_THROW(begin("root ::= ((\"a\"?){1000}){400}"), grammar_too_large);
    // Two ways at each character, and each remembers which.
    const auto ways = of_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"");
    EXPECT_THROW(matches(ways, std::string(60, 'a')), grammar_too_large);
    // Refused before it runs; a matcher that gets it all the same stops.
    EXPECT_THROW(begin("root ::= root \"a\" | \"b\""), grammar_too_large);
}

TEST(code_points, every_character_is_in_its_range_and_in_no_other) {
    std::mt19937 random(11);
    const std::vector<code_range> cases{{0, code_point_max},  {0x7F, 0x80},      {0x7FF, 0x800},
                                        {0xD7FF, 0xE000},     {0xFFFF, 0x10000}, {0x3040, 0x309F},
                                        {0x10FFFF, 0x10FFFF}, {0x123, 0x4567},   {0x9FFF, 0x2FFFF}};
    for (const code_range& range : cases) {
        for (const bool negated : {false, true}) {
            const auto wanted = negated ? all_but(sorted({range})) : sorted({range});
            const auto rules =
                built([&](grammar_builder& out) { return one_character_of(out, wanted); });
            std::vector<std::uint32_t> tried{0,      0x7F,   0x80,   0x7FF,   0x800,
                                             0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF};
            for (const std::uint32_t edge : {range.first, range.last})
                for (const int by : {-1, 0, 1})
                    tried.push_back(edge + static_cast<std::uint32_t>(by));
            for (int i = 0; i < 300; ++i)
                tried.push_back(static_cast<std::uint32_t>(random() % (code_point_max + 1)));
            for (const std::uint32_t c : tried) {
                if (c > code_point_max || (c >= 0xD800 && c <= 0xDFFF)) continue;
                const bool is_in = c >= range.first && c <= range.last;
                EXPECT_EQ(matches(rules, utf8_of(c)), is_in != negated)
                    << c << " in " << range.first << " to " << range.last;
            }
        }
    }
    const auto any = built([](grammar_builder& out) {
        return one_character_of(out, {{0, code_point_max}});
    });
    for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xF5"})
        EXPECT_FALSE(matches(any, bad));
}

TEST(text_pattern, the_whole_text_matches) {
    const std::vector<case_of> cases{
        {"a+b?", {"a", "aab"}, {"", "ba", "xa"}},
        {"^(yes|no)$", {"yes", "no"}, {"yesno", ""}},
        {R"(\d{3}-[A-F\n"]{2})", {"123-AB", "000-\"\n"}, {"12-AB", "123-AG"}},
        {"[^a]é.", {"xéx", "ééé"}, {"aéx", "xé\n"}},
        {"a|^b|c$", {"a", "b", "c"}, {"ab", ""}},
    };
    for (const case_of& one : cases) {
        const auto rules =
            built([&](grammar_builder& out) { return texts_matching(out, one.rules); });
        for (const char* good : one.good) EXPECT_TRUE(matches(rules, good)) << one.rules << good;
        for (const char* bad : one.bad) EXPECT_FALSE(matches(rules, bad)) << one.rules << bad;
    }
    for (const char* bad : {"(?=a)b", "^(?!a)b", "a(?<!b)", "\\p{L}", "(a)\\1"})
        EXPECT_THROW(built([&](grammar_builder& out) { return texts_matching(out, bad); }),
                     unsupported_schema)
            << bad;
}

TEST(text_pattern, an_expression_has_64_kib_at_most) {
    const auto made = [](std::size_t bytes) {
        return built(
            [&](grammar_builder& out) { return texts_matching(out, std::string(bytes, 'a')); });
    };
    EXPECT_NO_THROW(made(pattern_bytes_max));
    EXPECT_THROW(made(pattern_bytes_max + 1), unsupported_schema);
}

const tokenizer& words() {
    static const tokenizer made =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

storage::result<held_form> held(const std::string& family, output_form form,
                                prompt_end end = prompt_end::answer_begins) {
    generation_request request;
    request.form = std::move(form);
    request.chat.end = end;
    return answer_grammars(words(), family).compile(request);
}

TEST(text_form, answers_are_held_to_choices_expressions_and_grammars) {
    using kind = output_form::kind;
    const auto choice = held("chatml", {.what = kind::choice, .choices = {"yes", "no <b>"}});
    ASSERT_TRUE(choice);
    EXPECT_TRUE(matches(choice->rules, "no <b>"));
    EXPECT_FALSE(matches(choice->rules, "maybe"));
    const auto pattern = held("llama3", {.what = kind::pattern, .rules = "[0-9]+"});
    ASSERT_TRUE(pattern);
    EXPECT_TRUE(matches(pattern->rules, "42"));
    const auto rules = held("gemma3", {.what = kind::grammar, .rules = "root ::= \"x\"+"});
    ASSERT_TRUE(rules);
    EXPECT_TRUE(matches(rules->rules, "xx"));
    // Reasoning may come first where the family has it.
    const auto thought = held("qwen3", {.what = kind::choice, .choices = {"yes"}});
    ASSERT_TRUE(thought);
    EXPECT_TRUE(matches(thought->rules, "<think>\nhm\n</think>\n\nyes"));
}

TEST(text_form, what_cannot_be_held_to_says_why) {
    using kind = output_form::kind;
    const auto why = [](const output_form& form, prompt_end end = prompt_end::answer_begins) {
        const auto made = held("chatml", form, end);
        return made ? "held" : made.error().what;
    };
    EXPECT_EQ(why({.what = kind::choice}), "no finite answer has the form");
    EXPECT_EQ(why({.what = kind::pattern, .rules = "(?<=a)b"}),
              "pattern '(?<=a)b': '(?' other than '(?:' is not supported");
    EXPECT_EQ(why({.what = kind::grammar, .rules = "root ::= x"}),
              "the grammar: line 1, column 10: there is no rule 'x'");
    EXPECT_EQ(why({.what = kind::grammar, .rules = "root ::= root \"a\" | \"b\""}),
              "the grammar: a rule begins with itself, which is not supported");
    EXPECT_EQ(why({.what = kind::grammar, .rules = "root ::= ((\"a\"?){1000}){400}"}),
              "the grammar: it describes more than an answer can be held to");
    EXPECT_EQ(why({.what = kind::grammar, .rules = "root ::= \"a\" root"}),
              "no finite answer has the form");
    EXPECT_EQ(why({.what = kind::choice, .choices = {"a"}}, prompt_end::inside_answer),
              "an answer that must have a form has to begin anew");
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// The three stream filters: each gives the same in total however its input is cut.

#include <gtest/gtest.h>

#include <random>

#include "engine/text/output/output_parser.hpp"
#include "engine/text/output/stop_matcher.hpp"
#include "engine/text/output/utf8_stream.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

namespace {

std::vector<std::string> random_cuts(const std::string& text, std::mt19937& random) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = random() % 6;  // empty pushes too
        parts.push_back(text.substr(at, length));
        at += length;
    }
    return parts;
}

/// Cuts between characters only, as what comes out of utf8_stream is.
std::vector<std::string> character_cuts(const std::string& text, std::mt19937& random) {
    std::vector<std::string> parts(1);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = utf8::next(std::string_view(text).substr(at)).length;
        parts.back() += text.substr(at, length);
        at += length;
        if (random() % 3 == 0) parts.emplace_back();
    }
    return parts;
}

bool is_utf8(const std::string& text) { return utf8::valid_prefix(text) == text.size(); }

std::string random_of(const std::vector<std::string>& alphabet, std::mt19937& random) {
    std::string out;
    const std::size_t count = random() % 20;
    for (std::size_t i = 0; i < count; ++i) out += alphabet[random() % alphabet.size()];
    return out;
}

}  // namespace

TEST(utf8_stream, impossible_bytes_become_one_replacement_each) {
    const struct {
        std::string bytes, text;
    } cases[] = {
        {"abc", "abc"},
        {"\xC3\xA9", "é"},
        {"\xF0\x9F\x99\x82", "🙂"},
        {"\x80", "\uFFFD"},
        {"\xC0\x80", "\uFFFD\uFFFD"},            // overlong
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // surrogate
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
        {"\xE2\x82"
         "a",
         "\uFFFDa"},  // one for the part that was cut short
        {"\xF0\x9F\x99", "\uFFFD"},
        {"\xC3\xC3\xA9", "\uFFFDé"},
        {"\xFF\xFE", "\uFFFD\uFFFD"},
    };
    for (const auto& c : cases) {
        utf8_stream s;
        const std::string shown = s.push(c.bytes);
        EXPECT_EQ(shown + s.finish(), c.text);
    }
}

TEST(utf8_stream, half_a_character_is_never_shown) {
    utf8_stream s;
    EXPECT_EQ(s.push("\xF0\x9F"), "");
    EXPECT_EQ(s.push("\x99"), "");
    EXPECT_EQ(s.push("\x82!"), "🙂!");
    EXPECT_EQ(s.finish(), "");
    EXPECT_EQ(s.push("\xE2\x82"), "");
    EXPECT_EQ(s.finish(), "\uFFFD");
    EXPECT_EQ(s.finish(), "");
}

TEST(utf8_stream, any_cut_gives_the_same_text) {
    std::mt19937 random(3);
    const std::vector<std::string> alphabet = {"a",    "é",    "日",       "🙂",
                                               "\xFF", "\xC3", "\xE2\x82", "\x80",
                                               "\xF0", "\xED", "\xA0",     "\xF4\x8F"};
    for (int round = 0; round < 5000; ++round) {
        const std::string bytes = random_of(alphabet, random);
        std::string whole;
        utf8::append_lossy(whole, bytes);
        utf8_stream s;
        std::string pieces;
        for (const std::string& part : random_cuts(bytes, random)) {
            const std::string piece = s.push(part);
            ASSERT_TRUE(is_utf8(piece));
            pieces += piece;
        }
        ASSERT_EQ(pieces + s.finish(), whole);
    }
}

TEST(stop_matcher, the_earliest_match_wins_and_then_the_first_to_be_complete) {
    const struct {
        std::vector<std::string> stops;
        std::string text, shown, stop;
    } cases[] = {
        {{"stop"}, "go on stop here", "go on ", "stop"},
        {{"stop"}, "sto", "sto", ""},
        {{}, "anything", "anything", ""},
        {{""}, "anything", "anything", ""},
        {{"ab", "abc", "bcd"}, "xabcd", "x", "ab"},
        {{"abc", "bcd"}, "xabcd", "x", "abc"},
        {{"abx", "bcd"}, "xabcd", "xa", "bcd"},
        {{"abcd", "bc"}, "xabcy", "xa", "bc"},
        {{"abcd", "bc"}, "xabcd", "x", "abcd"},
        {{"abcd", "bc"}, "xabc", "xa", ""},  // known only at the end: cut, but not reported
        {{"aab"}, "aaab", "a", "aab"},
        {{"\n\nUser:"}, "a\n\n\nUser: b", "a\n", "\n\nUser:"},
        {{"日本"}, "日日本", "日", "日本"},
    };
    for (const auto& c : cases) {
        stop_matcher m(c.stops);
        const auto out = m.push(c.text);
        EXPECT_EQ(out.stop.value_or(""), c.stop) << c.text;
        EXPECT_EQ(out.text + m.finish(), c.shown) << c.text;
    }
}

TEST(stop_matcher, input_behind_a_stop_is_ignored) {
    stop_matcher m({"x"});
    EXPECT_EQ(m.push("ax").stop, "x");
    EXPECT_EQ(m.push("b").text, "");
    EXPECT_EQ(m.push("x").stop, std::nullopt);
    EXPECT_EQ(m.finish(), "");
}

TEST(stop_matcher, text_is_held_back_only_while_undecided) {
    stop_matcher m({"abc"});
    EXPECT_EQ(m.push("xa").text, "x");
    EXPECT_EQ(m.push("b").text, "");
    EXPECT_EQ(m.push("d").text, "abd");
    EXPECT_EQ(m.push("ab").text, "");
    EXPECT_EQ(m.finish(), "ab");
}

TEST(stop_matcher, any_cut_gives_the_same_text_and_stop) {
    std::mt19937 random(4);
    const std::vector<std::string> alphabet = {"a", "b", "c", "d", "é", "日", "\n"};
    const std::vector<std::vector<std::string>> sets = {{"ab", "abc", "bcd"},
                                                        {"abcd", "bc", "cda"},
                                                        {"aab", "aba"},
                                                        {"é日", "日\n", "\n\n"},
                                                        {"d"}};
    for (int round = 0; round < 5000; ++round) {
        const std::string text = random_of(alphabet, random);
        const auto& stops = sets[random() % sets.size()];
        stop_matcher whole(stops);
        const auto expected = whole.push(text);
        stop_matcher m(stops);
        std::string shown;
        std::optional<std::string> stop;
        for (const std::string& part : character_cuts(text, random)) {
            const auto out = m.push(part);
            ASSERT_TRUE(is_utf8(out.text));
            shown += out.text;
            if (out.stop) stop = out.stop;
        }
        const std::string shown_in_all = shown + m.finish();
        ASSERT_EQ(stop, expected.stop) << text;
        ASSERT_EQ(shown_in_all, expected.text + whole.finish()) << text;
        for (const std::string& s : stops)
            ASSERT_EQ(shown_in_all.find(s), std::string::npos) << text;
        if (stop) {
            ASSERT_TRUE(text.starts_with(shown_in_all + *stop));
        }
    }
}

namespace {

std::unique_ptr<output_parser> hermes_parser() {
    return make_output_parser({.calls = call_format::hermes}, offered_tools::any());
}

using pieces = std::vector<answer_piece>;

void append(pieces& all, pieces more) {
    for (auto& piece : more) {
        auto* text = std::get_if<answer_text>(&piece);
        auto* last = all.empty() ? nullptr : std::get_if<answer_text>(&all.back());
        if (text != nullptr && last != nullptr) {
            last->text += text->text;
        } else {
            all.push_back(std::move(piece));
        }
    }
}

pieces parse(const std::vector<std::string>& parts) {
    const auto parser = hermes_parser();
    pieces all;
    for (const std::string& part : parts) append(all, parser->push(part));
    append(all, parser->finish());
    return all;
}

std::string shown(const pieces& all) {
    std::string out;
    for (const auto& piece : all) {
        if (const auto* text = std::get_if<answer_text>(&piece)) {
            out += "T(" + text->text + ")";
        } else {
            const auto& call = std::get<answer_call>(piece);
            out += "C(" + call.name + " " + call.arguments_json + ")";
        }
    }
    return out;
}

}  // namespace

TEST(tool_call_parser, finds_calls_and_gives_everything_else_back) {
    const std::string call =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>";
    const struct {
        std::string text, expected;
    } cases[] = {
        {"plain", "T(plain)"},
        {"", ""},
        {call, "C(f {\"a\": 1})"},
        {"Let me see.\n" + call, "T(Let me see.)C(f {\"a\": 1})"},
        {"See.\n\n" + call, "T(See.\n)C(f {\"a\": 1})"},
        {call + "\n" + call, "C(f {\"a\": 1})C(f {\"a\": 1})"},
        {call + "done\n", "C(f {\"a\": 1})T(done\n)"},
        {"<tool_call>{\"name\":\"f\"}</tool_call>", "C(f {})"},
        {"a <tool", "T(a <tool)"},
        {"a\n", "T(a\n)"},
        {"a\n<tool_cal", "T(a\n<tool_cal)"},
        {"<tool_call>oops</tool_call>" + call, "T(<tool_call>oops</tool_call>)C(f {\"a\": 1})"},
        {"x\n<tool_call>\n{\"name\": 5}\n</tool_call>y",
         "T(x\n<tool_call>\n{\"name\": 5}\n</tool_call>y)"},
        {"<tool_call>{\"name\":\"f\",\"arguments\":[]}</tool_call>",
         "T(<tool_call>{\"name\":\"f\",\"arguments\":[]}</tool_call>)"},
        {"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"</tool_call>\"}}</tool_call>",
         "C(f {\"s\": \"</tool_call>\"})"},
        {"<tool_call>{\"name\":\"f\",\"arguments\":{}</tool_call>\n" + call,
         "C(f {})C(f {\"a\": 1})"},  // the last brace is the one that models forget
        {"<tool_call>{\"name\":\"f\",\"arg", "T(<tool_call>{\"name\":\"f\",\"arg)"},
        {"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n", "C(f {})"},
        {"<tool_call>" + call, "T(<tool_call>)C(f {\"a\": 1})"},
    };
    for (const auto& c : cases) EXPECT_EQ(shown(parse({c.text})), c.expected) << c.text;
}

TEST(tool_call_parser, text_is_shown_as_soon_as_it_cannot_be_a_tag) {
    const auto parser = hermes_parser();
    EXPECT_EQ(shown(parser->push("a\n")), "T(a)");
    EXPECT_EQ(shown(parser->push("b")), "T(\nb)");
    EXPECT_EQ(shown(parser->push("<tool_")), "");
    EXPECT_EQ(shown(parser->push("x")), "T(<tool_x)");
    EXPECT_EQ(shown(parser->push("<tool_call>{")), "");
    EXPECT_EQ(shown(parser->push("x")), "T(<tool_call>{x)");
}

TEST(tool_call_parser, any_cut_gives_the_same_pieces) {
    std::mt19937 random(5);
    const std::vector<std::string> alphabet = {
        "a",
        "\n",
        "<tool_call>",
        "</tool_call>",
        "<tool_",
        "call>",
        "{\"name\": \"f\"",
        ", \"arguments\": {\"x\": \"",
        "\"}",
        "}",
        "{\"name\": \"g\", \"arguments\": {}}",
        "\n<tool_call>\n{\"name\": \"h\", \"arguments\": {\"n\": 1}}\n</tool_call>",
        "é",
        "</"};
    for (int round = 0; round < 20000; ++round) {
        const std::string text = random_of(alphabet, random);
        ASSERT_EQ(shown(parse(random_cuts(text, random))), shown(parse({text}))) << text;
    }
}

}  // namespace semantic::engine

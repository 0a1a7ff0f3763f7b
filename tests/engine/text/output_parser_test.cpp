// SPDX-License-Identifier: Apache-2.0
// Goal: what a model writes comes apart the same however the stream is cut, and going back through
// the template gives the prompt that the model's memory already holds.

#include "engine/text/output/output_parser.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

namespace {

using pieces = std::vector<answer_piece>;
using ::testing::StartsWith;

answer_text text(const char* said) { return {said}; }
answer_thinking thought(const char* said) { return {said}; }
answer_call call(const char* name, const char* arguments) { return {name, arguments}; }

/// Neighbours of one kind as one.
void append(pieces& out, const pieces& more) {
    for (const answer_piece& piece : more) {
        if (!out.empty() && out.back().index() == piece.index()) {
            if (auto* said = std::get_if<answer_text>(&out.back())) {
                said->text += std::get<answer_text>(piece).text;
                continue;
            }
            if (auto* thinking = std::get_if<answer_thinking>(&out.back())) {
                thinking->text += std::get<answer_thinking>(piece).text;
                continue;
            }
        }
        out.push_back(piece);
    }
}

pieces parse_parts(const std::string& family, const std::vector<std::string>& parts,
                   bool has_tools = true) {
    const auto parser = make_output_parser(family, has_tools);
    pieces out;
    for (const std::string& part : parts) append(out, parser->push(part));
    append(out, parser->finish());
    return out;
}

pieces parse(const std::string& family, const std::string& said, bool has_tools = true) {
    return parse_parts(family, {said}, has_tools);
}

std::vector<std::string> random_cuts(const std::string& said, std::mt19937& random) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < said.size();) {
        const std::size_t length = random() % 6;  // empty pushes too
        parts.push_back(said.substr(at, length));
        at += length;
    }
    return parts;
}

const std::vector<std::string> families{"chatml", "qwen2",   "smollm2", "qwen3",
                                        "llama3", "harmony", "gemma3",  "deepseek2"};

/// What the assistant said, as a client sends it back.
message sent_back(const pieces& said) {
    message made{role::assistant, {}};
    for (const answer_piece& piece : said) {
        if (const auto* shown = std::get_if<answer_text>(&piece)) {
            made.parts.emplace_back(text_part{shown->text});
        } else if (const auto* thinking = std::get_if<answer_thinking>(&piece)) {
            made.parts.emplace_back(thinking_part{thinking->text});
        } else {
            const auto& called = std::get<answer_call>(piece);
            made.parts.emplace_back(tool_call_part{"1", called.name, called.arguments_json});
        }
    }
    return made;
}

bool has_call(const pieces& said) {
    return std::any_of(said.begin(), said.end(), [](const answer_piece& piece) {
        return std::holds_alternative<answer_call>(piece);
    });
}

struct replay {
    std::string memory;  // the first prompt and what was sampled
    std::string prompt;  // the next one
};
replay play(const std::string& family, const std::string& sampled, bool with_tools,
            const render_options& options = {}) {
    const chat_template rules = chat_template::make(family).value();
    conversation chat;
    chat.messages.push_back({role::user, {text_part{"q"}}});
    if (with_tools) chat.tools.push_back({"f", "Does.", R"({"type":"object"})"});
    const std::string first = rules.render(chat, options).value();
    const pieces said = parse(family, sampled, with_tools);
    chat.messages.push_back(sent_back(said));
    if (has_call(said)) {
        chat.messages.push_back({role::tool, {tool_result_part{"1", "7"}}});
    } else {
        chat.messages.push_back({role::user, {text_part{"next"}}});
    }
    return {first + sampled, rules.render(chat, options).value()};
}

}  // namespace

// Goal: a limit in the middle of a call leaves no markup in what the user reads.
TEST(output_parser, a_call_that_was_cut_off_is_neither_call_nor_text) {
    const struct {
        const char* family;
        const char* said;
        pieces expected;
    } cases[] = {
        {"chatml", "Let me see.\n<tool_call>\n{\"name\": \"f\", \"argu", {text("Let me see.")}},
        {"chatml", "<tool_call>", {}},
        {"chatml", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", {call("f", "{}")}},
        {"chatml", "<tool_call>\n{\"name\": 5}", {text("<tool_call>\n{\"name\": 5}")}},
        {"chatml", "plain", {text("plain")}},
        {"chatml", "a <tool", {text("a <tool")}},
        {"qwen3", "<think>\nhm\n</think>\n\n<tool_call>{\"na", {thought("hm")}},
        {"llama3", "{\"name\": \"f\", \"par", {}},
        {"llama3", "<|python_tag|>{", {}},
        {"llama3", "{\"dog\": \"Bis", {text("{\"dog\": \"Bis")}},
        {"harmony", "<|channel|>commentary to=functions.f <|message|>{\"a\": ", {}},
        {"harmony", "<|channel|>commentary to=functions.f <|message|>", {}},
        {"harmony", "<|channel|>final<|message|>{\"a\": ", {text("{\"a\": ")}},
    };
    for (const auto& c : cases) {
        const auto parser = make_output_parser(c.family, true);
        pieces out;
        append(out, parser->push(c.said));
        append(out, parser->cut_off());
        EXPECT_EQ(out, c.expected) << c.family << ": " << c.said;
    }
}

TEST(output_parser, there_is_one_for_every_family) {
    for (const std::string& family : families) EXPECT_TRUE(make_output_parser(family, true));
    EXPECT_FALSE(make_output_parser("vicuna", true));
}

TEST(output_parser, plain_text_comes_out_as_it_is) {
    for (const std::string& family : families) {
        for (const char* said :
             {"Hello.", "a\n\nb", "{\"a\": 1}", "<b>x</b> | {", "{", "{\"a\": \"}"}) {
            EXPECT_EQ(parse(family, said), pieces{text(said)}) << family;
        }
        EXPECT_EQ(parse(family, ""), pieces{}) << family;
    }
}

TEST(output_parser, text_is_not_held_back_without_need) {
    for (const std::string& family : families) {
        const auto parser = make_output_parser(family, true);
        EXPECT_EQ(parser->push("Hello"), pieces{text("Hello")}) << family;
    }
    const auto harmony = make_output_parser("harmony", true);
    EXPECT_EQ(harmony->push("<|channel|>analysis<|message|>hm"), pieces{thought("hm")});
    EXPECT_EQ(harmony->push("<|end"), pieces{});
    EXPECT_EQ(harmony->push("less"), pieces{thought("<|endless")});
}

TEST(output_parser, hermes_calls_are_parted_from_text) {
    for (const char* family : {"chatml", "qwen2", "smollm2", "qwen3"}) {
        EXPECT_EQ(parse(family,
                        "Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n"
                        "</tool_call>\n<tool_call>\n{\"name\": \"g\"}\n</tool_call>"),
                  (pieces{text("Look."), call("f", "{\"a\": 1}"), call("g", "{}")}))
            << family;
    }
}

TEST(output_parser, without_tools_nothing_is_a_call) {
    const std::string hermes = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    for (const char* family : {"chatml", "qwen3", "gemma3", "deepseek2", "llama3"}) {
        EXPECT_EQ(parse(family, hermes, false), pieces{text(hermes.c_str())}) << family;
    }
    const char* llama = R"({"name": "f", "parameters": {}})";
    EXPECT_EQ(parse("llama3", llama, false), pieces{text(llama)});
    EXPECT_EQ(parse("harmony", "<|channel|>commentary to=functions.f<|message|>{}", false),
              pieces{text("{}")});
}

TEST(output_parser, qwen3_thinking_is_parted_from_the_answer) {
    EXPECT_EQ(parse("qwen3", "<think>\nhm\n\nyes\n</think>\n\nIt is 7."),
              (pieces{thought("hm\n\nyes"), text("It is 7.")}));
    EXPECT_EQ(parse("qwen3", "<think>\n\n</think>\n\nIt is 7."), pieces{text("It is 7.")});
    EXPECT_EQ(
        parse("qwen3", "<think>\nhm\n</think>\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>"),
        (pieces{thought("hm"), call("f", "{}")}));
    EXPECT_EQ(parse("qwen3", "<think>\na </think b\n", false), pieces{thought("a </think b\n")});
}

TEST(output_parser, qwen3_thinks_only_at_the_start) {
    EXPECT_EQ(parse("qwen3", "The tag <think>x</think>"), pieces{text("The tag <think>x</think>")});
    EXPECT_EQ(parse("qwen3", "<think>a</think>b<think>c</think>"),
              (pieces{thought("a"), text("b<think>c</think>")}));
}

TEST(output_parser, llama3_calls_are_whole_answers) {
    const pieces called{call("f", "{\"a\": {\"b\": \"}\\\"\"}}")};
    const std::string object = R"({"name": "f", "parameters": {"a":{"b":"}\""}}})";
    EXPECT_EQ(parse("llama3", object), called);
    EXPECT_EQ(parse("llama3", "<|python_tag|>" + object), called);
    EXPECT_EQ(parse("llama3", "\n " + object), called);
    EXPECT_EQ(parse("llama3", R"({"type": "function", "name": "f", "arguments": {}})"),
              pieces{call("f", "{}")});
    EXPECT_EQ(parse("llama3", object + "; " + object),
              (pieces{called[0], text(("; " + object).c_str())}));
}

TEST(output_parser, llama3_answers_that_happen_to_be_json_are_text) {
    for (const char* said :
         {R"({"name": "Ada", "born": 1815})", R"({"name": "f", "parameters": 3})",
          R"({"parameters": {}})", R"({"name": "", "parameters": {}})", R"({name: 3} is not JSON)",
          R"({"name": "f", "parameters": {)", R"(Call {"name": "f", "parameters": {}})"}) {
        EXPECT_EQ(parse("llama3", said), pieces{text(said)});
    }
    EXPECT_EQ(parse("llama3", "<|python_tag|>print(1)"), pieces{text("print(1)")});
}

TEST(output_parser, harmony_channels_are_told_apart) {
    EXPECT_EQ(parse("harmony",
                    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final"
                    "<|message|>It is 7."),
              (pieces{thought("hm"), text("It is 7.")}));
    EXPECT_EQ(parse("harmony",
                    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary"
                    "<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary "
                    "to=functions.f <|constrain|>json<|message|>{\"a\":1}"),
              (pieces{thought("hm"), text("Let me see."), call("f", "{\"a\": 1}")}));
    EXPECT_EQ(parse("harmony", " to=functions.f<|channel|>commentary json<|message|>{}<|call|>"),
              pieces{call("f", "{}")});
    EXPECT_EQ(parse("harmony", "<|channel|>final<|message|>done<|return|>"), pieces{text("done")});
    EXPECT_EQ(parse("harmony", "<|channel|>commentary to=functions.f<|message|>"),
              pieces{call("f", "{}")});
}

TEST(output_parser, harmony_that_is_cut_short_or_broken_loses_no_text) {
    EXPECT_EQ(parse("harmony", "<|channel|>analysis<|message|>hm<|en"), pieces{thought("hm<|en")});
    EXPECT_EQ(parse("harmony", "<|channel|>commentary to=functions.f<|message|>{\"a\": "),
              pieces{text("{\"a\": ")});
    EXPECT_EQ(parse("harmony", "<|channel|>commentary to=functions.f<|message|>[1]<|call|>"),
              pieces{text("[1]")});
    EXPECT_EQ(parse("harmony",
                    "<|channel|>final<|message|>a<|end|> stray <|start|>assistant"
                    "<|channel|>final<|message|>b"),
              pieces{text("astray b")});
    EXPECT_EQ(parse("harmony",
                    "<|channel|>final<|message|>a<|start|>assistant<|channel|>final"
                    "<|message|>b"),
              pieces{text("ab")});
    EXPECT_EQ(parse("harmony", "<|channel|>final<|message|>a<|end|> stray"),
              pieces{text("astray")});
    EXPECT_EQ(parse("harmony", "no channel<|message|>b"), pieces{text("no channel<|message|>b")});
    EXPECT_EQ(parse("harmony", "<|channel|>anal"), pieces{});
}

TEST(output_parser, reasoning_that_the_prompt_opened_is_reasoning_from_the_start) {
    EXPECT_EQ(parse("qwen3-thinking", "hm\n</think>\n\nHello."),
              (pieces{thought("hm"), text("Hello.")}));
    EXPECT_EQ(parse("qwen3-thinking", "hm"), pieces{thought("hm")});
    EXPECT_EQ(parse("qwen3-thinking", "</think>\n\nHello."), pieces{text("Hello.")});
}

TEST(output_parser, says_whether_the_model_is_still_reasoning) {
    const struct {
        const char* family;
        const char* said;
        bool is_thinking;
    } cases[] = {
        {"chatml", "<think>\nhm", false},
        {"qwen3", "", false},
        {"qwen3", "<think>\nhm", true},
        {"qwen3", "<think>\nhm\n</think>", false},
        {"qwen3", "Hello.", false},
        {"qwen3-thinking", "", true},
        {"qwen3-thinking", "hm\n</think>\n\n", false},
        {"harmony", "<|channel|>analysis", false},
        {"harmony", "<|channel|>analysis<|message|>hm", true},
        {"harmony", "<|channel|>analysis<|message|>hm<|end|>", false},
        {"harmony", "<|channel|>final<|message|>Hello", false},
    };
    for (const auto& c : cases) {
        const auto parser = make_output_parser(c.family, false);
        parser->push(c.said);
        EXPECT_EQ(parser->is_thinking(), c.is_thinking) << c.family << ": " << c.said;
    }
}

TEST(output_parser, deepseek2_drops_the_blank_that_the_template_writes) {
    EXPECT_EQ(parse("deepseek2", " Hello"), pieces{text("Hello")});
    EXPECT_EQ(parse("deepseek2", "  Hello"), pieces{text(" Hello")});
    EXPECT_EQ(parse("deepseek2", "Hello "), pieces{text("Hello ")});
}

TEST(output_parser, gives_the_same_however_the_text_is_cut) {
    std::mt19937 random(7);
    const std::vector<std::string> alphabet{
        "<think>",
        "</think>",
        "\n",
        "\n\n",
        "<tool_call>",
        "</tool_call>",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
        "{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}",
        "<|python_tag|>",
        "<|channel|>analysis<|message|>",
        "<|channel|>final<|message|>",
        "<|channel|>commentary to=functions.g <|constrain|>json<|message|>",
        "<|end|>",
        "<|start|>assistant",
        "<|call|>",
        "<|return|>",
        " ",
        "x",
        "<",
        "<|",
        "{",
        "}",
        "\"",
        "ü€"};
    for (int round = 0; round < 4000; ++round) {
        std::string said;
        for (std::size_t i = random() % 9; i > 0; --i) said += alphabet[random() % alphabet.size()];
        for (const std::string& family : families) {
            const bool has_tools = random() % 4 != 0;
            ASSERT_EQ(parse_parts(family, random_cuts(said, random), has_tools),
                      parse(family, said, has_tools))
                << family << ": " << said;
        }
    }
}

TEST(output_parser, an_answer_sent_back_renders_to_what_was_sampled) {
    const struct {
        const char* family;
        const char* sampled;
    } cases[] = {
        {"chatml", "Hello.\n  two "}, {"qwen2", "\nHello."},
        {"smollm2", "Hello."},        {"qwen3", "Hello."},
        {"llama3", "Hello.\n\nTwo."}, {"gemma3", "Hello.\n\nTwo."},
        {"deepseek2", " Hello. "},    {"harmony", "<|channel|>final<|message|>Hello. "},
    };
    for (const auto& c : cases) {
        const replay played = play(c.family, c.sampled, false);
        EXPECT_THAT(played.prompt, StartsWith(played.memory)) << c.family;
    }
}

TEST(output_parser, a_call_sent_back_renders_to_what_was_sampled) {
    const std::string hermes =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, \"ü\"]}}\n</tool_call>";
    const std::string think = "<think>\nhm\n\nyes\n</think>\n\n";
    const std::string harmony =
        " to=functions.f<|channel|>commentary json<|message|>{\"a\": [1, 2.5, \"ü\"]}";
    const struct {
        const char* family;
        std::string sampled;
    } cases[] = {
        {"chatml", hermes},
        {"chatml", "Look.\n" + hermes + "\n" + hermes},
        {"qwen2", "Look.\n\n" + hermes},
        {"smollm2", hermes},
        {"qwen3", hermes},
        {"qwen3", think + hermes},
        {"qwen3", think + "Look.\n" + hermes + "\n" + hermes},
        {"qwen3-thinking", "hm\n\nyes\n</think>\n\n" + hermes},
        {"llama3", R"({"name": "f", "parameters": {"a": [1, 2.5, "ü"]}})"},
        {"harmony", harmony},
        {"harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" + harmony},
    };
    for (const auto& c : cases) {
        const replay played = play(c.family, c.sampled, true);
        EXPECT_THAT(played.prompt, StartsWith(played.memory)) << c.family << ": " << c.sampled;
    }
}

TEST(output_parser, kept_thinking_renders_to_what_was_sampled) {
    render_options keep;
    keep.keep_thinking = true;
    const char* qwen = "<think>\nhm\n</think>\n\nHello.";
    const char* harmony =
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
        "Hello.";
    for (const auto& [family, sampled] :
         {std::pair{"qwen3", qwen}, std::pair{"harmony", harmony}}) {
        const replay played = play(family, sampled, false, keep);
        EXPECT_THAT(played.prompt, StartsWith(played.memory)) << family;
    }
}

// Where the published template writes something else than the model did; README.md says why. Up to
// there the memory holds: `kept` is the end of what the next prompt repeats.
TEST(output_parser, where_the_families_part_from_what_was_sampled) {
    const struct {
        const char* family;
        const char* sampled;
        bool with_tools;
        const char* kept;
    } cases[] = {
        {"qwen3", "<think>\nhm\n</think>\n\nHello.", false, "<|im_start|>assistant\n"},
        {"qwen3-thinking", "hm\n</think>\n\nHello.", false, "<|im_start|>assistant\n"},
        {"harmony",
         "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>b",
         false, "<|start|>assistant<|channel|>"},
        {"harmony",
         "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.f <|constrain|>json<|message|>{}",
         true, "hm<|end|><|start|>assistant"},
        {"llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", true,
         "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"llama3", "{\"name\":\"f\", \"parameters\": {}}", true, "{\"name\":"},
        {"llama3", " Hello.", false, "<|end_header_id|>\n\n"},
        {"gemma3", "Hello. ", false, "Hello."},
        {"deepseek2", "Hello.", false, "Assistant:"},
        {"chatml", "<tool_call>\n{\"name\":\"f\", \"arguments\": {}}\n</tool_call>", true,
         "<tool_call>\n{\"name\":"},
    };
    for (const auto& c : cases) {
        const replay played = play(c.family, c.sampled, c.with_tools);
        const auto parting = std::mismatch(played.memory.begin(), played.memory.end(),
                                           played.prompt.begin(), played.prompt.end())
                                 .first;
        const std::string kept(played.memory.begin(), parting);
        EXPECT_NE(kept, played.memory) << c.family;
        EXPECT_THAT(kept, ::testing::EndsWith(c.kept)) << c.family;
    }
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/turn_replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace semantic::engine {
namespace {

const chat_template& family(const char* name) {
    static std::map<std::string, chat_template> made;
    auto found = made.find(name);
    if (found == made.end()) found = made.emplace(name, *chat_template::make(name)).first;
    return found->second;
}

conversation one_turn(std::vector<content_part> parts) {
    conversation chat;
    chat.tools = {{"find", "", "{}"}, {"add", "", "{}"}};
    chat.messages.push_back({role::user, {text_part{"question"}}});
    chat.messages.push_back({role::assistant, std::move(parts)});
    chat.messages.push_back({role::user, {text_part{"next"}}});
    return chat;
}

/// What the turn is rendered from when the model wrote `sampled`; empty: from its parts.
std::string replayed(const char* name, const std::string& sampled, conversation chat) {
    std::string text = "before" + std::string(family(name).turn_begin()) + sampled;
    sampled_turn turn{6, static_cast<std::uint32_t>(text.size())};
    std::size_t found =
        replay_turns(chat, marked_text(text, false), std::span(&turn, 1), family(name));
    const std::string& as_sampled = chat.messages[1].as_sampled;
    EXPECT_EQ(found, as_sampled.empty() ? 0u : 1u);
    return as_sampled.empty() ? "" : as_sampled.substr(family(name).turn_begin().size());
}

TEST(turn_replay, a_call_sent_back_in_other_words_is_given_back_as_it_was_written) {
    const std::string sampled =
        "On it.\n<tool_call>\n{\"name\":  \"find\", \"arguments\": {\"b\": [1.0, {\"x\":2}],\"a\":"
        " \"\\u00e9\"}}\n</tool_call>";
    for (const char* arguments :
         {R"({"b":[1.0,{"x":2}],"a":"é"})", R"({"a":"\u00e9","b":[1,{"x":2.0}]})",
          "{ \"a\" : \"é\" ,\n \"b\" : [ 1e0, { \"x\" : 2 } ] }"})
        EXPECT_EQ(replayed("chatml", sampled,
                           one_turn({text_part{"On it."}, tool_call_part{"1", "find", arguments}})),
                  sampled)
            << arguments;
}

TEST(turn_replay, white_space_at_both_ends_and_dropped_reasoning_make_no_difference) {
    const std::string sampled = "<think>\nlet me see\n</think>\n\nIt is 5. \n";
    EXPECT_EQ(replayed("qwen3", sampled, one_turn({text_part{"It is 5."}})), sampled);
    EXPECT_EQ(replayed("qwen3", sampled,
                       one_turn({thinking_part{"let me see\n"}, text_part{" It is 5."}})),
              sampled);
    EXPECT_EQ(replayed("chatml", " Yes.\n", one_turn({text_part{"Yes."}})), " Yes.\n");
}

TEST(turn_replay, a_turn_that_says_something_else_is_rendered_from_its_parts) {
    const std::string sampled =
        "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    const auto call = [](const char* name, const char* arguments) {
        return content_part(tool_call_part{"1", name, arguments});
    };
    for (const auto& parts : std::vector<std::vector<content_part>>{
             {call("add", R"({"a":1})")},
             {call("find", R"({"a":2})")},
             {call("find", R"({"a":"1"})")},
             {call("find", R"({"a":1,"b":null})")},
             {call("find", R"({"a":)")},
             {call("find", R"({"a":1})"), call("find", R"({"a":1})")},
             {text_part{"Well."}, call("find", R"({"a":1})")},
             {text_part{sampled}},
             {}})
        EXPECT_EQ(replayed("chatml", sampled, one_turn(parts)), "");
    EXPECT_EQ(replayed("qwen3", "<think>\na\n</think>\n\nb",
                       one_turn({thinking_part{"other"}, text_part{"b"}})),
              "");
    EXPECT_EQ(replayed("chatml", "two  words", one_turn({text_part{"two words"}})), "");
}

TEST(turn_replay, half_characters_are_what_the_client_was_shown_of_them) {
    EXPECT_EQ(replayed("chatml", "caf\xc3", one_turn({text_part{"caf\ufffd"}})), "caf\xc3");
}

TEST(turn_replay, a_call_that_was_cut_is_sent_back_as_it_was_shown_or_as_an_object_or_not_at_all) {
    const std::string sampled =
        "On it.\n<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": \"Once upon";
    const auto back = [&](std::vector<content_part> more) {
        std::vector<content_part> parts{text_part{"On it."}};
        for (content_part& part : more) parts.push_back(std::move(part));
        return replayed("chatml", sampled, one_turn(parts));
    };
    const auto call = [](const char* name, const char* arguments) {
        return content_part(tool_call_part{"1", name, arguments});
    };
    EXPECT_EQ(back({call("find", R"({"a":"Once upon)")}), sampled);
    EXPECT_EQ(back({call("find", R"({"a":"Once upon"})")}), sampled);
    EXPECT_EQ(back({}), sampled) << "a reply in one piece may leave it out";
    EXPECT_EQ(back({call("add", R"({"a":"Once upon)")}), "");
    EXPECT_EQ(back({call("find", R"({"a":"Once)")}), "");
    EXPECT_EQ(back({call("find", R"({"a":"Once upon a time"})")}), "");
    EXPECT_EQ(back({call("find", R"({"a":"Once upon)"), call("find", R"({"a":"Once upon)")}), "");
    const std::string before_its_arguments = "On it.\n<tool_call>\n{\"name\": \"fi";
    EXPECT_EQ(replayed("chatml", before_its_arguments, one_turn({text_part{"On it."}})),
              before_its_arguments);
}

TEST(turn_replay, digits_that_no_double_holds_are_compared_too) {
    const std::string sampled =
        "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": 12345678901234567890123}}\n"
        "</tool_call>";
    const auto back = [&](const char* arguments) {
        return replayed("chatml", sampled, one_turn({tool_call_part{"1", "find", arguments}}));
    };
    EXPECT_EQ(back(R"({"a":12345678901234567890123})"), sampled);
    EXPECT_EQ(back(R"({"a":12345678901234567890124})"), "");
}

TEST(turn_replay, a_call_that_was_none_after_all_is_sent_back_beside_its_text_or_not_at_all) {
    const std::string call = "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": 1, b}}";
    const std::string shown = R"({"a":1,)";
    EXPECT_EQ(replayed("chatml", call, one_turn({text_part{call}})), call);
    EXPECT_EQ(
        replayed("chatml", call, one_turn({tool_call_part{"1", "find", shown}, text_part{call}})),
        call);
}

TEST(turn_replay, turns_are_taken_in_order_and_each_once) {
    conversation chat = one_turn({text_part{"ok"}});
    for (const char* said : {"ok", "other", "ok"}) {
        chat.messages.push_back({role::assistant, {text_part{said}}});
        chat.messages.push_back({role::user, {text_part{"next"}}});
    }
    const std::string begin(family("chatml").turn_begin());
    std::string text;
    std::vector<sampled_turn> turns;
    for (const char* sampled : {"ok", "ok\n", " ok", "ok  "}) {
        auto at = static_cast<std::uint32_t>(text.size());
        text += begin + sampled;
        turns.push_back({at, static_cast<std::uint32_t>(text.size())});
    }
    EXPECT_EQ(replay_turns(chat, marked_text(text, false), turns, family("chatml")), 3u);
    EXPECT_EQ(chat.messages[1].as_sampled, begin + "ok");
    EXPECT_EQ(chat.messages[3].as_sampled, begin + "ok\n");
    EXPECT_EQ(chat.messages[5].as_sampled, "");
    EXPECT_EQ(chat.messages[7].as_sampled, begin + " ok");
}

TEST(turn_replay, every_family_renders_the_turn_where_its_template_puts_one) {
    for (const char* name :
         {"chatml", "qwen2", "qwen3", "smollm2", "llama3", "gemma3", "deepseek2", "harmony"}) {
        conversation first;
        first.messages.push_back({role::user, {text_part{"question"}}});
        std::string prompt = *family(name).render(first);
        std::string sampled = std::string_view(name) == "harmony"
                                  ? "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
                                    "<|channel|>final<|message|>answer"
                                  : " answer\n";
        std::string memory = prompt + sampled;
        auto begin = static_cast<std::uint32_t>(prompt.rfind(family(name).turn_begin()));
        sampled_turn turn{begin, static_cast<std::uint32_t>(memory.size())};
        conversation second = first;
        second.messages.push_back({role::assistant, {text_part{"answer"}}});
        second.messages.push_back({role::user, {text_part{"next"}}});
        EXPECT_EQ(
            replay_turns(second, marked_text(memory, false), std::span(&turn, 1), family(name)), 1u)
            << name;
        std::string text = *family(name).render(second);
        EXPECT_TRUE(text.starts_with(memory)) << name << "\n" << text << "\n" << memory;
    }
}

TEST(turn_replay, the_note_is_read_as_it_was_written_and_its_faults_end_it) {
    std::vector<sampled_turn> turns{{3, 9}, {9, 9}, {20, 4000000000u}};
    EXPECT_EQ(encode_turns(turns), "3-9 9-9 20-4000000000");
    EXPECT_EQ(decode_turns(encode_turns(turns), 4000000000u), turns);
    EXPECT_EQ(decode_turns(encode_turns(turns), 3999999999u).size(), 2u);
    EXPECT_TRUE(decode_turns("", 9).empty());
    for (const char* torn : {"3", "3-", "-", "3-9,", "9-3", "x", "3 9", "4294967296-1"})
        EXPECT_TRUE(decode_turns(torn, 100).empty()) << torn;
    EXPECT_EQ(decode_turns("3-9 8-10", 100).size(), 1u) << "turns do not overlap";
    std::vector<sampled_turn> many;
    for (std::uint32_t i = 0; i <= sampled_turns_max; ++i) many.push_back({i, i});
    auto kept = decode_turns(encode_turns(many), 1u << 20);
    EXPECT_EQ(kept.size(), sampled_turns_max);
    EXPECT_EQ(kept.back(), many.back()) << "the latest are kept";
}

}  // namespace
}  // namespace semantic::engine

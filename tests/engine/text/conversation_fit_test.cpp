// SPDX-License-Identifier: Apache-2.0
// Histories that a template has no place for: they are rendered in the nearest shape that it has.

#include "engine/text/template/conversation_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <stdexcept>

#include "engine/text/template/template_probe.hpp"
#include "tests/engine/text/golden_files.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using names = std::vector<std::string>;

message saying(role from, const std::string& text) { return {from, {text_part{text}}}; }
message system(const std::string& text) { return saying(role::system, text); }
message user(const std::string& text) { return saying(role::user, text); }
message assistant(const std::string& text) { return saying(role::assistant, text); }
tool_call_part call(const std::string& id, const std::string& name = "look") {
    return {id, name, R"({"at":")" + id + "\"}"};
}
message result(const std::string& id, const std::string& text) {
    return {role::tool, {tool_result_part{id, text}}};
}
conversation chat_of(std::vector<message> messages) { return {"", std::move(messages), {}}; }

const tool_definition look{"look", "Looks.", R"({"type":"object","properties":{}})"};

chat_template family(const char* name) { return chat_template::make(name).value(); }

chat_template own(const std::string& source) {
    const semantic::tests::temp_dir folder;
    std::ofstream(folder / "tokenizer_config.json") << boost::json::serialize(boost::json::object{
        {"chat_template", source}, {"bos_token", "<s>"}, {"eos_token", "</s>"}});
    auto made = chat_template::load(folder.path(), own_template_family);
    if (!made) throw std::runtime_error(made.error().what);
    return *std::move(made);
}

/// Turns alternate, results count as no turn, ids have nine characters, a message has one call, and
/// the only system text comes first.
const std::string strict =
    "{%- set first = 1 if messages[0].role == 'system' else 0 %}{%- set at = namespace(turn=0) %}"
    "{%- for m in messages[first:] %}"
    "{%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
    "{%- if (m.role == 'user') != (at.turn % 2 == 0) %}"
    "{{- raise_exception('roles must alternate') }}{%- endif %}{%- set at.turn = at.turn + 1 %}"
    "{%- elif m.role == 'system' %}{{- raise_exception('one system text') }}{%- endif %}"
    "{%- if m.tool_calls and m.tool_calls | length > 1 %}{{- raise_exception('one call') }}"
    "{%- endif %}{%- endfor %}"
    "{%- if tools %}{{- '[TOOLS]' + tools | tojson }}{%- endif %}"
    "{%- for m in messages %}{{- '[' + m.role + ']' + (m.content or '') }}"
    "{%- for c in m.tool_calls or [] %}{%- if c.id | length != 9 %}"
    "{{- raise_exception('nine characters') }}{%- endif %}"
    "{{- '[CALL ' + c.id + ']' + c.function.name + c.function.arguments | tojson }}{%- endfor %}"
    "{%- if m.role == 'tool' %}{{- '[OF ' + m.tool_call_id + ']' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}";

/// Knows users and assistants in turn, and raises over all else.
const std::string bare =
    "{%- for m in messages %}{%- if m.role not in ['user', 'assistant'] or m.tool_calls %}"
    "{{- raise_exception('no such role') }}{%- endif %}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('alternate') }}"
    "{%- endif %}{{- '[' + m.role + ']' + m.content }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}";

std::string rendered(const chat_template& by, const conversation& chat, names* changes = nullptr) {
    const auto made = by.render_marked(chat, {}, changes);
    return made ? made->bytes() : "error: " + made.error().what;
}

TEST(conversation_fit, a_later_system_text_is_told_in_the_next_turn_of_the_user) {
    names changes;
    const conversation chat =
        chat_of({system("A"), user("Hi"), assistant("Yes"), system("B"), system("C"), user("Go")});
    EXPECT_EQ(rendered(own(strict), chat, &changes),
              "[system]A[user]Hi[assistant]Yes[user][System]\nB\n\n[System]\nC\n\nGo[assistant]");
    EXPECT_THAT(changes, ElementsAre("later_system_text_in_user_turn"));
    EXPECT_EQ(rendered(own(bare), chat),
              "[user]A\n\nHi[assistant]Yes[user][System]\nB\n\n[System]\nC\n\nGo[assistant]");
    EXPECT_THAT(rendered(family("harmony"), chat),
                HasSubstr("<|start|>user<|message|>[System]\nB\n\n[System]\nC\n\nGo<|end|>"));
    EXPECT_THAT(rendered(family("gemma3"), chat),
                HasSubstr("<start_of_turn>user\n[System]\nB\n\n[System]\nC\n\nGo<end_of_turn>"));
}

TEST(conversation_fit, a_later_system_text_without_a_turn_of_the_user_becomes_one) {
    EXPECT_EQ(rendered(own(strict), chat_of({user("Hi"), system("B")})),
              "[user]Hi\n\n[System]\nB[assistant]");
    EXPECT_EQ(rendered(own(strict), chat_of({user("Hi"), assistant("Yes"), system("B")})),
              "[user]Hi[assistant]Yes[user][System]\nB[assistant]");
    EXPECT_EQ(rendered(own(strict), chat_of({user("Hi"), assistant("Yes"), system("B"),
                                             assistant("So"), user("Go")})),
              "[user]Hi[assistant]Yes[user][System]\nB[assistant]So[user]Go[assistant]");
}

TEST(conversation_fit, a_system_text_between_a_call_and_its_result_comes_after_the_result) {
    const message called{role::assistant, {call("abcdefgh1")}};
    EXPECT_EQ(
        rendered(own(strict), chat_of({user("Hi"), called, system("B"), result("abcdefgh1", "7"),
                                       assistant("Seven"), user("Go")})),
        "[user]Hi[assistant][CALL abcdefgh1]look{\"at\": \"abcdefgh1\"}[tool]7[OF abcdefgh1]"
        "[assistant]Done.[user][System]\nB[assistant]Seven[user]Go[assistant]");
}

TEST(conversation_fit, system_texts_at_the_start_are_joined_where_there_is_one_place) {
    names changes;
    EXPECT_EQ(rendered(own(strict), chat_of({system("A"), system("B"), user("Hi")}), &changes),
              "[system]A\n\nB[user]Hi[assistant]");
    EXPECT_THAT(changes, ElementsAre("system_texts_joined"));
    EXPECT_EQ(rendered(own(bare), chat_of({system("A")})), "[user]A[assistant]");
}

// For templates with the tools in the first message of the user.
TEST(conversation_fit, system_texts_at_the_start_are_joined_in_front_of_tools) {
    names changes;
    conversation chat = chat_of({system("A"), system("B"), user("Hi")});
    EXPECT_THAT(rendered(family("llama3"), chat, &changes), HasSubstr("system<|end_header_id|>"));
    EXPECT_THAT(changes, IsEmpty());
    chat.tools = {look};
    EXPECT_THAT(rendered(family("llama3"), chat, &changes), HasSubstr("A\n\nB<|eot_id|>"));
    EXPECT_THAT(changes, ElementsAre("system_texts_joined"));
}

TEST(conversation_fit, messages_of_a_role_in_a_row_are_joined_where_roles_alternate) {
    names changes;
    const conversation chat = chat_of(
        {user("A"), user("B"), assistant("C"), assistant("D"), user("E"), user("F"), user("G")});
    EXPECT_EQ(rendered(own(strict), chat, &changes),
              "[user]A\n\nB[assistant]C\n\nD[user]E\n\nF\n\nG[assistant]");
    EXPECT_THAT(changes, ElementsAre("messages_joined"));
    EXPECT_THAT(rendered(family("gemma3"), chat), HasSubstr("model\nC\n\nD<end_of_turn>"));
    EXPECT_THAT(rendered(family("chatml"), chat), HasSubstr("user\nA<|im_end|>\n<|im_start|>user"));
}

TEST(conversation_fit, a_users_text_after_a_result_stays_the_users_where_it_has_no_place) {
    const message called{role::assistant, {call("abcdefgh1")}};
    const message stop{role::user, {tool_result_part{"abcdefgh1", "7"}, text_part{"Stop."}}};
    names changes;
    EXPECT_THAT(rendered(own(strict), chat_of({user("Hi"), called, stop}), &changes),
                HasSubstr("[tool]7[OF abcdefgh1][assistant]Done.[user]Stop.[assistant]"));
    EXPECT_THAT(changes, ElementsAre("answer_added"));
}

TEST(conversation_fit, a_conversation_may_begin_with_the_assistant) {
    names changes;
    const conversation chat = chat_of({system("S"), assistant("Welcome."), user("Hi")});
    EXPECT_EQ(rendered(own(strict), chat, &changes),
              "[system]S[user][Start of the conversation][assistant]Welcome.[user]Hi[assistant]");
    EXPECT_THAT(changes, ElementsAre("opening_user_turn_added"));
    EXPECT_EQ(rendered(own(bare), chat), "[user]S[assistant]Welcome.[user]Hi[assistant]");
    for (const char* name : {"llama3", "gemma3"}) {
        conversation offered = chat;
        offered.tools = {look};
        EXPECT_THAT(rendered(family(name), offered), HasSubstr("Welcome.")) << name;
        offered.messages.resize(1);
        EXPECT_THAT(rendered(family(name), offered), Not(HasSubstr("error: "))) << name;
    }
}

TEST(conversation_fit, several_calls_of_a_message_come_each_with_its_result) {
    names changes;
    const conversation chat = chat_of(
        {user("Hi"),
         {role::assistant, {text_part{"I look."}, call("abcdefgh1"), call("abcdefgh2", "ask")}},
         result("abcdefgh2", "two"),
         result("abcdefgh1", "one"),
         user("Go")});
    EXPECT_THAT(rendered(own(strict), chat, &changes),
                HasSubstr("[assistant]I look.[CALL abcdefgh1]look{\"at\": \"abcdefgh1\"}[tool]one"
                          "[OF abcdefgh1][assistant][CALL abcdefgh2]ask{\"at\": \"abcdefgh2\"}"
                          "[tool]two[OF abcdefgh2][assistant]Done.[user]Go[assistant]"));
    EXPECT_THAT(changes, Contains("calls_split"));
    EXPECT_THAT(rendered(family("harmony"), chat),
                HasSubstr("to=functions.look<|channel|>commentary json<|message|>"
                          "{\"at\": \"abcdefgh1\"}<|call|><|start|>functions.look to=assistant"
                          "<|channel|>commentary<|message|>\"one\"<|end|><|start|>assistant "
                          "to=functions.ask<|channel|>"));
    EXPECT_THAT(rendered(family("llama3"), chat),
                HasSubstr("\"one\"<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
                          "{\"name\": \"ask\""));
    // Results that name no call are taken in their order, and those that are left stay.
    const conversation unnamed = chat_of({user("Hi"),
                                          {role::assistant, {call("a"), call("b", "ask")}},
                                          result("", "one"),
                                          result("", "two"),
                                          result("", "three")});
    const std::string text = rendered(family("llama3"), unnamed);
    EXPECT_LT(text.find("\"one\""), text.find("\"ask\""));
    EXPECT_LT(text.find("\"ask\""), text.find("\"two\""));
    EXPECT_THAT(text, HasSubstr("\"three\""));
}

TEST(conversation_fit, calls_that_were_broken_off_get_a_result_where_they_need_one) {
    names changes;
    EXPECT_THAT(rendered(own(strict),
                         chat_of({user("Hi"), {role::assistant, {call("abcdefgh1")}}, user("No")}),
                         &changes),
                HasSubstr("[tool][No result][OF abcdefgh1][assistant]Done.[user]No[assistant]"));
    EXPECT_THAT(changes, ElementsAre("results_added", "answer_added"));
    EXPECT_THAT(rendered(own(strict), chat_of({user("Hi"),
                                               {role::assistant, {call("abcdefgh1"), call("b")}},
                                               result("b", "two"),
                                               user("No")})),
                HasSubstr("[tool][No result][OF abcdefgh1][assistant][CALL"));
}

TEST(conversation_fit, calls_that_the_model_wrote_in_one_turn_stay_in_it) {
    conversation chat = chat_of({user("Hi"),
                                 {role::assistant, {call("1"), call("2")}},
                                 result("1", "one"),
                                 result("2", "two"),
                                 user("A"),
                                 system("B"),
                                 user("C")});
    const std::string turn =
        "<|start|>assistant<|channel|>commentary to=functions.look"
        "<|message|>{}<|call|><|start|>assistant and once more";
    chat.messages[1].as_sampled = turn;
    chat.messages[1].as_sampled_content = {{0, turn.size()}};
    EXPECT_THAT(rendered(family("harmony"), chat), HasSubstr(turn + "<|call|><|start|>functions"));
}

TEST(conversation_fit, ids_are_renamed_alike_where_the_template_wants_nine_characters) {
    names changes;
    const std::string id = "toolu_0123456789";
    const std::string nine = nine_character_id(id);
    EXPECT_EQ(nine.size(), 9u);
    EXPECT_EQ(nine_character_id(nine), nine);
    EXPECT_EQ(nine_character_id("Abc123xyZ"), "Abc123xyZ");
    EXPECT_NE(nine_character_id("Abc123xy_"), "Abc123xy_");
    EXPECT_NE(nine_character_id("toolu_0123456788"), nine);
    const conversation chat = chat_of({user("Hi"), {role::assistant, {call(id)}}, result(id, "7")});
    EXPECT_THAT(rendered(own(strict), chat, &changes),
                HasSubstr("[CALL " + nine + "]look{\"at\": \"" + id + "\"}[tool]7[OF " + nine));
    EXPECT_THAT(changes, ElementsAre("call_ids_renamed"));
}

TEST(conversation_fit, calls_results_and_tools_are_told_as_text_where_there_are_none) {
    names changes;
    conversation chat = chat_of({user("Hi"),
                                 {role::assistant, {text_part{"I look."}, call("1")}},
                                 result("1", "seven"),
                                 result("1", "eight"),
                                 user("Go")});
    chat.tools = {look};
    const std::string text = rendered(own(bare), chat, &changes);
    EXPECT_THAT(text, HasSubstr("[user]# Tools\n\nYou may call one or more functions"));
    EXPECT_THAT(text, HasSubstr("[assistant]I look.\n<tool_call>\n{\"name\": \"look\", "
                                "\"arguments\": {\"at\": \"1\"}}\n</tool_call>[user]"
                                "<tool_response>\nseven\n</tool_response>\n<tool_response>\neight\n"
                                "</tool_response>\n\nGo[assistant]"));
    EXPECT_THAT(changes, ElementsAre("tools_as_text", "system_text_in_user_turn", "calls_as_text",
                                     "results_as_text", "messages_joined"));
    for (const char* name : {"gemma3", "deepseek2", "llama3.0"}) {
        EXPECT_THAT(rendered(family(name), chat), HasSubstr("\"name\": \"look\"")) << name;
        EXPECT_THAT(rendered(family(name), chat), HasSubstr("seven")) << name;
        // The model is asked for calls in the Hermes form, and they are read in it.
        EXPECT_EQ(family(name).answers().calls, call_format::hermes) << name;
    }
    EXPECT_EQ(own(bare).answers().calls, call_format::hermes);
}

TEST(conversation_fit, calls_are_told_and_read_in_the_form_that_tools_as_text_ask_for) {
    // Has a form of calls of its own and leaves tools out.
    const std::string toolless =
        "{%- for m in messages %}{{- '[' + m.role + ']' + m.content }}{%- for c in m.tool_calls %}"
        "{{- '[TOOL_CALLS]' + c.function.name + '[ARGS]' + c.function.arguments | tojson }}"
        "{%- endfor %}{%- endfor %}{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}";
    EXPECT_EQ(own(toolless).answers().calls, call_format::hermes);
    conversation chat =
        chat_of({user("Hi"), {role::assistant, {call("1")}}, result("1", "seven"), user("Go")});
    EXPECT_THAT(rendered(own(toolless), chat), HasSubstr("[TOOL_CALLS]look[ARGS]"));
    chat.tools = {look};
    EXPECT_THAT(rendered(own(toolless), chat), HasSubstr("[assistant]<tool_call>\n{\"name\""));
    EXPECT_THAT(rendered(own(toolless), chat), Not(HasSubstr("[TOOL_CALLS]")));
}

TEST(conversation_fit, a_result_without_a_call_is_told_as_text_where_it_has_no_place) {
    for (const char* name : {"harmony", "gemma3"})
        EXPECT_THAT(rendered(family(name), chat_of({user("Hi"), assistant("b"), result("1", "x")})),
                    HasSubstr("user"))
            << name;
    EXPECT_THAT(
        rendered(family("harmony"), chat_of({user("Hi"), assistant("b"), result("1", "x")})),
        HasSubstr("<|start|>user<|message|><tool_response>\nx\n</tool_response><|end|>"));
}

TEST(conversation_fit, channels_that_a_client_sends_back_as_text_are_told_apart) {
    const std::string text = rendered(
        family("harmony"),
        chat_of({user("q"),
                 assistant("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>"
                           "final<|message|>So.<|return|>"),
                 user("next")}));
    EXPECT_THAT(text, HasSubstr("<|start|>assistant<|channel|>final<|message|>So.<|end|>"
                                "<|start|>user"));
    EXPECT_THAT(text, Not(HasSubstr("hm")));
}

// A request that continues a conversation uses its memory, so the rendering of a longer one begins
// with that of the shorter one as far as the client has changed nothing.
TEST(conversation_fit, a_longer_conversation_goes_on_where_the_shorter_one_ended) {
    const std::vector<message> all{
        system("S"),
        user("A"),
        user("B"),
        assistant("C"),
        system("D"),
        user("E"),
        {role::assistant, {call("call_1"), call("call_2")}},
        system("F"),
        result("call_1", "one"),
        result("call_2", "two"),
        assistant("G"),
        assistant("H"),
        user("I"),
        {role::assistant, {call("call_3")}},
        result("call_3", "three"),
        user("J"),
        system("K"),
        assistant("L"),
    };
    for (const chat_template& by : {own(strict), own(bare), family("harmony"), family("gemma3"),
                                    family("llama3"), family("chatml")}) {
        // Where an answer follows: what was asked is then what is remembered.
        for (const std::size_t asked : {3u, 6u, 10u, 13u, 17u}) {
            conversation shorter = chat_of({all.begin(), all.begin() + static_cast<long>(asked)});
            shorter.tools = {look};
            shorter.end = prompt_end::messages;
            const std::string before = rendered(by, shorter);
            for (std::size_t length = asked + 1; length <= all.size(); ++length) {
                conversation longer = shorter;
                longer.messages.assign(all.begin(), all.begin() + static_cast<long>(length));
                const std::string after = rendered(by, longer);
                // The next text may be joined to a result before its end.
                const std::size_t common = static_cast<std::size_t>(
                    std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first -
                    before.begin());
                EXPECT_GE(common + 20, before.size())
                    << by.family() << " " << asked << " " << length << "\n"
                    << before << "\n"
                    << after;
            }
        }
    }
}

/// Messages of all kinds in any order, each with a text of its own; calls and results that belong
/// together, and such that do not.
std::vector<message> random_history(std::mt19937& random) {
    const auto below = [&](unsigned end) { return random() % end; };
    std::vector<message> all;
    std::vector<std::string> open;
    int texts = 0;
    const auto text = [&] { return "text-" + std::to_string(texts++) + "."; };
    const auto length = 1 + below(12);
    while (all.size() < length) {
        switch (below(6)) {
            case 0:
                all.push_back(system(text()));
                break;
            case 1:
            case 2:
                all.push_back(user(text()));
                break;
            case 3:
                all.push_back(assistant(text()));
                break;
            case 4: {
                message called{role::assistant, {}};
                for (auto calls = 1 + below(3); calls > 0; --calls) {
                    open.push_back("call_" + text());
                    called.parts.push_back(call(open.back()));
                }
                all.push_back(called);
                break;
            }
            default:
                if (open.empty() || below(5) == 0) {
                    all.push_back(result("other", text()));
                } else {
                    all.push_back(result(open.front(), text()));
                    open.erase(open.begin());
                }
        }
    }
    return all;
}

std::vector<std::string> texts_of(const std::vector<message>& messages) {
    std::vector<std::string> texts;
    for (const message& one : messages) {
        for (const content_part& part : one.parts) {
            if (const auto* said = std::get_if<text_part>(&part)) texts.push_back(said->text);
            if (const auto* found = std::get_if<tool_result_part>(&part))
                texts.push_back(found->text);
            if (const auto* called = std::get_if<tool_call_part>(&part))
                texts.push_back(called->arguments_json.substr(7, called->id.size()));
        }
    }
    return texts;
}

TEST(conversation_fit, no_history_is_refused_and_nothing_of_it_is_left_out) {
    std::mt19937 random(20261129);
    const std::vector<chat_template> all{own(strict),        own(bare),        family("harmony"),
                                         family("gemma3"),   family("llama3"), family("chatml"),
                                         family("llama3.0"), family("qwen3"),  family("deepseek2")};
    for (int i = 0; i < 300; ++i) {
        conversation chat = chat_of(random_history(random));
        const auto is_system = [](const message& one) { return one.from == role::system; };
        if (std::ranges::all_of(chat.messages, is_system)) chat.messages.push_back(user("Hi"));
        if (i % 2 == 0) chat.tools = {look};
        for (const chat_template& by : all) {
            const std::string got = rendered(by, chat);
            for (const std::string& text : texts_of(chat.messages))
                ASSERT_THAT(got, HasSubstr(text)) << by.family() << " " << i;
        }
    }
}

TEST(conversation_fit, calls_are_told_as_the_model_writes_them_where_its_template_leaves_them_out) {
    // As LFM2's does.
    const chat_template lfm2 = own(
        "{% if tools %}<|im_start|>system\nList of tools: <|tool_list_start|>[{{ tools | tojson }}]"
        "<|im_end|>\n{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + "
        "m.content"
        " + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
    EXPECT_EQ(lfm2.answers().calls, call_format::lfm2);
    conversation chat = chat_of({user("Hi"),
                                 {role::assistant, {call("1"), call("2")}},
                                 result("1", "seven"),
                                 result("2", "eight")});
    chat.tools = {look};
    names changes;
    EXPECT_THAT(rendered(lfm2, chat, &changes),
                HasSubstr("<|im_start|>assistant\n<|tool_call_start|>[look(at=\"1\"), "
                          "look(at=\"2\")]<|tool_call_end|><|im_end|>"));
    EXPECT_THAT(changes, Contains("calls_as_text"));
}

TEST(conversation_fit, what_a_template_renders_is_not_touched) {
    names changes{"old"};
    const conversation chat = chat_of({system("A"), user("Hi"), assistant("Yes"), system("B"),
                                       user("Go"), user("on"), result("1", "x")});
    EXPECT_THAT(rendered(family("chatml"), chat, &changes), HasSubstr("<|im_start|>system\nB"));
    EXPECT_THAT(changes, IsEmpty());
    const auto messages = flatten(chat).value();
    const auto same = fit_conversation(messages, {look}, template_shape()).value();
    EXPECT_THAT(same.changes, IsEmpty());
    EXPECT_EQ(same.messages.size(), messages.size());
    EXPECT_EQ(same.tools.size(), 1u);
}

TEST(conversation_fit, shapes_are_found_by_trying) {
    const template_shape shape = own(strict).shape();
    template_shape expected;
    expected.several_system_texts = expected.later_system_text = false;
    expected.users_in_a_row = expected.assistants_in_a_row = expected.assistant_first = false;
    expected.user_after_result = expected.parallel_calls = expected.any_call_id = false;
    expected.sampled_parallel_calls = expected.unanswered_calls = false;
    EXPECT_EQ(shape, expected);
    EXPECT_EQ(family("chatml").shape(), template_shape());
    EXPECT_FALSE(family("llama3").shape().text_with_call);
}

TEST(conversation_fit, abilities_are_what_requests_find) {
    for (const chat_template& by :
         {own(strict), own(bare), family("harmony"), family("gemma3"), family("llama3")}) {
        EXPECT_EQ(missing_abilities(abilities_of(by)), "") << by.family();
        EXPECT_TRUE(abilities_of(by).parallel_tool_calls);
    }
    EXPECT_FALSE(own_places_of(family("llama3")).parallel_tool_calls);
}

TEST(conversation_fit, a_template_that_raises_over_a_shape_gets_the_nearest_that_it_takes) {
    // Raises for reasoning, and for a text next to one call.
    const std::string picky =
        "{%- for m in messages %}{%- if m.tool_calls and m.thinking and m.content %}"
        "{{- raise_exception('one of them') }}{%- endif %}"
        "{{- '[' + m.role + ']' + m.content + (m.thinking or '') }}{%- for c in m.tool_calls %}"
        "{{- c.function.arguments | tojson }}{%- endfor %}{%- endfor %}{{- tools }}";
    names changes;
    EXPECT_THAT(
        rendered(own(picky),
                 chat_of({user("Hi"),
                          {role::assistant, {thinking_part{"hm"}, text_part{"so"}, call("1")}},
                          result("1", "x")}),
                 &changes),
        HasSubstr("[assistant]hm\nso{\"at\""));
    EXPECT_THAT(changes, ElementsAre("text_joined_to_reasoning"));
    // Over tools alone, as one that serialises a generator.
    const std::string generator =
        "{%- if tools %}{{- tools | map(attribute='function') | tojson }}{%- endif %}"
        "{%- for m in messages %}{{- '[' + m.role + ']' + m.content }}{%- endfor %}";
    conversation offered = chat_of({user("Hi")});
    offered.tools = {look};
    EXPECT_THAT(rendered(own(generator), offered, &changes),
                HasSubstr("[system]# Tools\n\nYou may call"));
    EXPECT_THAT(changes, ElementsAre("tools_as_text"));
    // Over calls in the history.
    const std::string append =
        "{%- for m in messages %}{%- if m.tool_calls %}{%- set all = [] %}"
        "{%- set _ = all.append(m) %}{%- endif %}{{- '[' + m.role + ']' + m.content }}{%- endfor %}"
        "{{- tools }}";
    EXPECT_THAT(
        rendered(
            own(append),
            chat_of({user("Hi"), {role::assistant, {call("1")}}, result("1", "x"), user("Go")})),
        HasSubstr("<tool_call>\n{\"name\": \"look\""));
}

}  // namespace
}  // namespace semantic::engine

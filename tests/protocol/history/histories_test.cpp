// SPDX-License-Identifier: Apache-2.0
// What another server, another model or this server's own stream has put into a history is taken in
// every dialect, and shown to the model as well as can be.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/anthropic/messages.hpp"
#include "protocol/history/open_calls.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/ollama/request.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/responses/request.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol {
namespace {

using names = std::vector<std::string>;

/// What a request says to the model, and what of it is left out: "user: [Hi]\n" "left out: x y".
template <class Request>
std::string taken(const result<Request>& request) {
    if (!request) return request.error().message;
    std::string said = outline(request->chat);
    for (const std::string& each : request->left_out) said += "left out: " + each + "\n";
    return said;
}
std::string chat(const std::string& messages) {
    return taken(openai::parse_chat(R"({"model":"m","messages":[)" + messages + "]}"));
}
std::string response(const std::string& items) {
    return taken(responses::parse_response(R"({"model":"m","input":[)" + items + "]}"));
}
std::string message(const std::string& messages) {
    return taken(
        anthropic::parse_messages(R"({"model":"m","max_tokens":9,"messages":[)" + messages + "]}"));
}
std::string ollama_chat(const std::string& messages) {
    return taken(ollama::parse_chat(R"({"model":"m","messages":[)" + messages + "]}"));
}

const std::string chat_user = R"({"role":"user","content":"Go on."})";

TEST(histories, arguments_that_are_no_object_stay_as_they_were_written) {
    struct row {
        const char* written;    // in a JSON string
        const char* arguments;  // that the call has
    };
    for (const row& one :
         {row{R"({\"a\": \"Once upon a ti)", R"({"a": "Once upon a ti)"}, row{"{", "{"},
          row{R"({\"a\": \"He said \"hi\" and left\"})", R"({"a": "He said "hi" and left"})"},
          row{"path=a.txt", "path=a.txt"}, row{R"([\"a.txt\"])", R"(["a.txt"])"},
          row{R"({\"a\": \"b\nc\"})", "{\"a\": \"b\nc\"}"}, row{"null", "null"}, row{"7", "7"},
          row{"  ", "{}"}, row{"", "{}"}, row{R"({\"a\": 1})", R"({"a":1})"},
          row{R"( {\"a\" : [ 0.1000, 1e400 ], \"b \\\" c\": \"d  e\\\\\"} )",
              R"({"a":[0.1000,1e400],"b \" c":"d  e\\"})"}}) {
        const std::string called =
            std::string("[call c w ") + one.arguments + "]\nuser: [Go on.]\n";
        EXPECT_EQ(chat(R"({"role":"assistant","tool_calls":[{"id":"c","type":"function",)"
                       R"("function":{"name":"w","arguments":")" +
                       std::string(one.written) + R"("}}]},)" + chat_user),
                  "assistant: " + called);
        EXPECT_EQ(response(R"({"type":"function_call","call_id":"c","name":"w","arguments":")" +
                           std::string(one.written) + R"("},)" + chat_user),
                  "assistant: " + called);
        EXPECT_EQ(message(R"({"role":"assistant","content":[{"type":"tool_use","id":"c",)"
                          R"("name":"w","input":")" +
                          std::string(one.written) + R"("}]},)" + chat_user),
                  "assistant: " + called);
        EXPECT_EQ(ollama_chat(R"({"role":"assistant","tool_calls":[{"id":"c","function":)"
                              R"({"name":"w","arguments":")" +
                              std::string(one.written) + R"("}}]},)" + chat_user),
                  "assistant: " + called);
    }
}

TEST(histories, arguments_may_be_of_any_kind_or_missing) {
    for (const auto& [wire, arguments] :
         std::vector<std::pair<std::string, std::string>>{{R"(,"arguments":{"a":1})", R"({"a":1})"},
                                                          {R"(,"arguments":[1])", "[1]"},
                                                          {R"(,"arguments":null)", "{}"},
                                                          {"", "{}"}}) {
        const std::string called = "assistant: [call c w " + arguments + "]\nuser: [Go on.]\n";
        EXPECT_EQ(chat(R"({"role":"assistant","tool_calls":[{"id":"c","function":{"name":"w")" +
                       wire + "}}]}," + chat_user),
                  called);
        EXPECT_EQ(response(R"({"type":"function_call","call_id":"c","name":"w")" + wire + "}," +
                           chat_user),
                  called);
        EXPECT_EQ(ollama_chat(R"({"role":"assistant","tool_calls":[{"id":"c","function":)"
                              R"({"name":"w")" +
                              wire + "}}]}," + chat_user),
                  called);
    }
    for (const char* input : {R"("input":null,)", ""})
        EXPECT_EQ(message(R"({"role":"assistant","content":[{)" + std::string(input) +
                          R"("type":"tool_use","id":"c","name":"w"}]},)" + chat_user),
                  "assistant: [call c w {}]\nuser: [Go on.]\n");
}

TEST(histories, an_answer_that_ended_at_once_or_in_its_reasoning_says_nothing) {
    EXPECT_EQ(
        chat(R"({"role":"assistant","reasoning_content":"Hm"},{"role":"assistant"},)" + chat_user),
        "assistant: [thinking Hm] []\nassistant: []\nuser: [Go on.]\n");
}

TEST(histories, calls_without_ids_get_some_and_results_find_them) {
    EXPECT_EQ(chat(R"({"role":"assistant","tool_calls":[{"id":"","function":{"name":"f"}},)"
                   R"({"function":{"name":"g"}}]},{"role":"tool","name":"g","content":"G"},)"
                   R"({"role":"tool","tool_call_id":"","content":"F"})"),
              "assistant: [call call_0 f {}] [call call_1 g {}]\n"
              "tool: [result call_1 G]\ntool: [result call_0 F]\n");
}

TEST(histories, a_picture_is_refused_in_the_newest_message_and_told_by_a_line_before) {
    const std::string no_image = "Could not process image: this model takes text only";
    const std::string part = R"({"type":"image_url","image_url":{"url":"data:x"}})";
    const std::string seen =
        R"({"role":"user","content":[{"type":"text","text":"See"},)" + part + "]}";
    EXPECT_EQ(chat(seen), "messages.0.content.1: " + no_image);
    EXPECT_EQ(chat(seen + R"(,{"role":"assistant","content":"I "})"),
              "messages.0.content.1: " + no_image)
        << "what an answer begins with is not newer";
    EXPECT_EQ(chat(seen + "," + chat_user), "user: [See] [[image left out]]\nuser: [Go on.]\n");
    const std::string call =
        R"({"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}},)"
        R"({"id":"d","function":{"name":"f"}}]})";
    const std::string returned = R"({"role":"tool","tool_call_id":"c","content":[)" + part + "]}";
    const std::string other = R"({"role":"tool","tool_call_id":"d","content":"D"})";
    EXPECT_EQ(chat(call + "," + returned + "," + other), "messages.1.content.0: " + no_image)
        << "results of one turn are all new";
    EXPECT_EQ(chat(call + "," + returned + "," + other + "," + chat_user),
              "assistant: [call c f {}] [call d f {}]\ntool: [result c [image left out]]\n"
              "tool: [result d D]\nuser: [Go on.]\n");

    const std::string block = R"({"type":"image","source":{}})";
    const std::string pdf = R"({"type":"document","source":{"type":"base64","data":"JVBE"}})";
    const std::string shown = R"({"role":"user","content":[)" + block + "," + pdf + "]}";
    EXPECT_EQ(message(shown), "messages.0.content.0: " + no_image);
    EXPECT_EQ(message(shown + "," + chat_user),
              "user: [[image left out]] [[PDF left out]]\nuser: [Go on.]\n");
    const std::string result =
        R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[)" + block +
        R"(]},{"type":"text","text":"So?"}]})";
    EXPECT_EQ(message(result), "messages.0.content.0.content.0: " + no_image);
    EXPECT_EQ(message(result + "," + chat_user),
              "tool: [result c [image left out]]\nuser: [So?]\nuser: [Go on.]\n");

    const std::string item = R"({"role":"user","content":[{"type":"input_image"}]})";
    const std::string output = R"({"type":"function_call_output","call_id":"c","output":)"
                               R"([{"type":"input_image","image_url":"data:x"}]})";
    EXPECT_EQ(response(item), "input.0.content.0: " + no_image);
    EXPECT_EQ(response(item + "," + chat_user), "user: [[image left out]]\nuser: [Go on.]\n");
    EXPECT_EQ(response(output), "input.0.output.0: " + no_image);
    EXPECT_EQ(response(output + "," + chat_user),
              "tool: [result c [image left out]]\nuser: [Go on.]\n");

    const std::string with_images = R"({"role":"user","content":"See","images":["AA==","AA=="]})";
    EXPECT_EQ(ollama_chat(with_images), "messages.0.images: " + no_image);
    EXPECT_EQ(ollama_chat(with_images + "," + chat_user),
              "user: [See\n[image left out]\n[image left out]]\nuser: [Go on.]\n");
}

TEST(histories, system_texts_behind_a_message_leave_it_the_newest) {
    const std::string no_image = "Could not process image: this model takes text only";
    const std::string block = R"({"role":"user","content":[{"type":"image","source":{}}]})";
    const std::string part = R"({"role":"user","content":[{"type":"image_url"}]})";
    const std::string item = R"({"role":"user","content":[{"type":"input_image"}]})";
    const std::string images = R"({"role":"user","content":"","images":["AA=="]})";
    const std::string system = R"(,{"role":"system","content":"Plan mode is on."})";
    const std::string said = R"(,{"role":"assistant","content":"Yes."})";
    for (const std::string& later : {system, system + system}) {
        EXPECT_EQ(message(block + later), "messages.0.content.0: " + no_image);
        EXPECT_EQ(chat(part + later), "messages.0.content.0: " + no_image);
        EXPECT_EQ(response(item + later), "input.0.content.0: " + no_image);
        EXPECT_EQ(ollama_chat(images + later), "messages.0.images: " + no_image);
        for (const std::string& told : {message(block + said + later), chat(part + said + later),
                                        ollama_chat(images + said + later)})
            EXPECT_TRUE(told.starts_with("user: [[image left out]]\nassistant: [Yes.]")) << told;
    }
}

TEST(histories, parts_of_unknown_types_are_left_out_unless_the_newest_message_has_no_other) {
    const std::string unknown = R"({"type":"hologram","x":1})";
    const std::string only = R"({"role":"user","content":[)" + unknown + "]}";
    const std::string accompanied =
        R"({"role":"user","content":[)" + unknown + R"(,{"type":"text","text":"Hi"}]})";
    const std::string refused = "only text is supported here, found a part of type \"hologram\"";
    EXPECT_EQ(chat(only), "messages.0.content.0: " + refused);
    EXPECT_EQ(response(only), "input.0.content.0: " + refused);
    EXPECT_EQ(message(only),
              "messages.0.content.0: only text is supported here, found a block of type "
              "\"hologram\"");
    const std::string said = "user: [Hi]\nleft out: hologram\n";
    EXPECT_EQ(chat(accompanied), said);
    EXPECT_EQ(response(accompanied), said);
    EXPECT_EQ(message(accompanied), said);
    for (const auto read : {chat, response, message}) {
        const std::string told = read(only + "," + chat_user);
        EXPECT_TRUE(told.ends_with("user: [Go on.]\nleft out: hologram\n")) << told;
    }
}

TEST(histories, tools_of_other_types_are_left_out_by_name) {
    const auto left_out = [](const auto& request) { return request ? request->left_out : names{}; };
    const std::string chat_head = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],)";
    EXPECT_EQ(left_out(openai::parse_chat(chat_head +
                                          R"("tools":[{"type":"other","other":{"name":"x"}},)"
                                          R"({"type":"function","function":{"name":"f"}}]})")),
              names{"other"});
    EXPECT_EQ(left_out(ollama::parse_chat(chat_head + R"("tools":[{"type":"web"}]})")),
              names{"web"});
    EXPECT_EQ(left_out(anthropic::parse_messages(
                  chat_head +
                  R"("max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search"},)"
                  R"({"type":"advisor_20260301","name":"advisor"},{"name":"f","input_schema":{}},)"
                  R"({"type":"tool_search_tool_bm25_20251119","name":"t"},)"
                  R"({"type":"bash_20250124","name":"bash"}]})")),
              (names{"web_search_20250305", "advisor_20260301", "tool_search_tool_bm25_20251119"}));
}

TEST(histories, what_the_vendors_servers_ran_is_told_in_a_line) {
    EXPECT_EQ(
        response(R"({"type":"web_search_call","id":"ws_1","status":"completed","action":)"
                 R"({"type":"search","query":"boats"}},)"
                 R"({"type":"mcp_call","id":"mc_1","server_label":"docs","name":"find",)"
                 R"("arguments":"{}","output":"found"},)"
                 R"({"type":"image_generation_call","id":"ig","result":"iVBORw0KGgo="},)"
                 R"({"role":"assistant","content":"Nothing."},)" +
                 chat_user),
        "assistant: [[web_search_call: {\"action\":{\"type\":\"search\",\"query\":\"boats\"}}]] "
        "[[mcp_call: {\"server_label\":\"docs\",\"name\":\"find\",\"arguments\":\"{}\","
        "\"output\":\"found\"}]] [[image left out]] [Nothing.]\nuser: [Go on.]\n");
    EXPECT_EQ(message(R"({"role":"assistant","content":[{"type":"server_tool_use","id":"s",)"
                      R"("name":"web_search","input":{"query":"boats"}},)"
                      R"({"type":"web_search_tool_result","tool_use_id":"s","content":)"
                      R"([{"type":"web_search_result","title":"B","encrypted_content":"abc"}]},)"
                      R"({"type":"redacted_thinking","data":"EmwK"},{"type":"fallback"},)"
                      R"({"type":"text","text":"Found."}]},)" +
                      chat_user),
              "assistant: [[server_tool_use: {\"name\":\"web_search\",\"input\":"
              "{\"query\":\"boats\"}}]] [[web_search_tool_result: {\"content\":[{\"type\":"
              "\"web_search_result\",\"title\":\"B\"}]}]] [Found.]\nuser: [Go on.]\n"
              "left out: redacted_thinking\nleft out: fallback\n");
}

TEST(histories, what_no_model_reads_is_left_out_of_a_line) {
    const std::string sealed(300, 'A');
    const boost::json::value item{{"type", "x_call"},
                                  {"id", "1"},
                                  {"encrypted_state", "s"},
                                  {"blob", sealed},
                                  {"url", "data:image/png;base64,AA=="},
                                  {"none", nullptr},
                                  {"deep", {{"signature", "s"}, {"text", "kept"}}}};
    EXPECT_EQ(shown_in_a_line("x_call", item), R"([x_call: {"deep":{"text":"kept"}}])");
    EXPECT_EQ(shown_in_a_line("x_call", {{"id", "1"}}), "[x_call]");
}

TEST(histories, calls_that_the_client_ran_itself_are_calls_with_their_outputs) {
    EXPECT_EQ(
        response(R"({"type":"local_shell_call","id":"l","call_id":"c1","status":"completed",)"
                 R"("action":{"type":"exec","command":["ls"]}},)"
                 R"({"type":"local_shell_call_output","call_id":"c1","output":"a.txt"},)"
                 R"({"type":"shell_call","call_id":"c2","action":{"commands":["ls"]}},)"
                 R"({"type":"shell_call_output","call_id":"c2","output":[{"stdout":"a.txt"}]},)"
                 R"({"type":"apply_patch_call","call_id":"c3","operation":{"path":"a"}},)"
                 R"({"type":"apply_patch_call_output","call_id":"c3","status":"completed"},)"
                 R"({"type":"tool_search_call","call_id":"c4","execution":"client",)"
                 R"("arguments":{"query":"notes"}},)"
                 R"({"type":"tool_search_output","call_id":"c4","tools":[{"name":"add"}]},)"
                 R"({"type":"of_tomorrow_call","call_id":"c5","input":"x"},)"
                 R"({"type":"of_tomorrow_call_output","call_id":"c5","output":"y"})"),
        "assistant: [call c1 local_shell {\"type\":\"exec\",\"command\":[\"ls\"]}]\n"
        "tool: [result c1 a.txt]\n"
        "assistant: [call c2 shell {\"commands\":[\"ls\"]}]\n"
        "tool: [result c2 [{\"stdout\":\"a.txt\"}]]\n"
        "assistant: [call c3 apply_patch {\"path\":\"a\"}]\n"
        "tool: [result c3 {}]\n"
        "assistant: [call c4 tool_search {\"query\":\"notes\"}]\n"
        "tool: [result c4 {\"tools\":[{\"name\":\"add\"}]}]\n"
        "assistant: [call c5 of_tomorrow {\"input\":\"x\"}]\n"
        "tool: [result c5 y]\n");
    EXPECT_EQ(chat(R"({"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":)"
                   R"({"name":"patch","input":"+ x"}},{"id":"d","type":"of_tomorrow"}]},)" +
                   chat_user),
              "assistant: [call c patch {\"input\":\"+ x\"}]\nuser: [Go on.]\n"
              "left out: of_tomorrow\n");
}

TEST(histories, items_and_blocks_of_unknown_types_are_left_out_by_name_and_each_once) {
    EXPECT_EQ(response(chat_user + R"(,{"type":"mcp_list_tools","tools":[]},{"type":"thought"},)"
                                   R"({"type":"thought"},{"type":"mcp_approval_response"})"),
              "user: [Go on.]\nleft out: mcp_list_tools\nleft out: thought\n"
              "left out: mcp_approval_response\n");
    EXPECT_EQ(message(chat_user +
                      R"(,{"role":"system","content":[{"type":"tool_addition",)"
                      R"("tool":{"type":"tool_reference","name":"x"}}]},)"
                      R"({"role":"system","output_config":{"effort":"low"}},)" +
                      chat_user),
              "user: [Go on.]\nsystem: [There is no tool x.]\n"
              "system: [Reasoning effort from here on: low]\nuser: [Go on.]\n");
}

TEST(histories, a_tool_that_a_search_found_and_nobody_defines_is_named_in_its_result) {
    EXPECT_EQ(message(R"({"role":"assistant","content":[{"type":"tool_use","id":"t",)"
                      R"("name":"ToolSearch","input":{}}]},{"role":"user","content":)"
                      R"([{"type":"tool_result","tool_use_id":"t","content":)"
                      R"([{"type":"tool_reference","tool_name":"add"}]}]})"),
              "assistant: [call t ToolSearch {}]\n"
              "tool: [result t There is no tool add.]\n");
}

TEST(histories, a_display_that_is_not_known_shows_what_is_thought) {
    const auto hides = [](const std::string& display) {
        const auto request = anthropic::parse_messages(
            R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],)"
            R"("thinking":{"type":"adaptive","display":")" +
            display + R"("}})");
        EXPECT_TRUE(request) << display;
        return request && request->hides_thinking;
    };
    EXPECT_FALSE(hides("updates"));
    EXPECT_FALSE(hides("of_tomorrow"));
    EXPECT_TRUE(hides("omitted"));
}

TEST(left_out_names, are_each_told_once_and_no_more_of_them_than_may_be) {
    left_out_names left_out;
    for (std::size_t i = 0; i <= left_out_names::names_max; ++i) {
        left_out.add("n" + std::to_string(i));
        left_out.add("n0");
    }
    EXPECT_EQ(left_out.take().size(), left_out_names::names_max);
    left_out_names cut;
    cut.add(std::string(left_out_names::name_bytes_max - 1, 'x') + "éy");
    EXPECT_EQ(cut.take(), names{std::string(left_out_names::name_bytes_max - 1, 'x')});
}

TEST(open_calls, results_are_found_in_time_that_grows_with_their_number) {
    open_calls calls;
    constexpr int count = 200'000;
    for (int i = 0; i < count; ++i) calls.add("c" + std::to_string(i), "f");
    for (int i = count; i-- > 0;)
        EXPECT_EQ(calls.take("x" + std::to_string(i), "f"), "x" + std::to_string(i));
    EXPECT_EQ(calls.take("c0", ""), "c0");
    EXPECT_EQ(calls.take("", "f"), "c1");
    EXPECT_EQ(calls.take("", ""), "c2");
    EXPECT_EQ(calls.take("", "g"), "g");
}

}  // namespace
}  // namespace semantic::protocol

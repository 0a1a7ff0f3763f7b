// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/probe/probe_conversations.hpp"

#include <string>

namespace semantic::engine::probe {

namespace {

constexpr const char* call_id = "probe0001";

message said(role from, const char* text) { return {from, {text_part{text}}}; }

message result() { return {role::tool, {tool_result_part{call_id, returned}}}; }

tool_call_part call_of(const char* id, const char* text) {
    return {id, tool_name, std::string(R"({"k":")") + text + "\"}"};
}

}  // namespace

conversation question() {
    conversation chat;
    chat.messages = {said(role::user, asked)};
    return chat;
}

conversation with_system_text() {
    conversation chat = question();
    chat.system = instructed;
    return chat;
}

conversation with_system_text_alone() {
    conversation chat;
    chat.system = instructed;
    return chat;
}

conversation with_two_system_texts() {
    conversation chat = with_system_text();
    chat.messages.insert(chat.messages.begin(), said(role::system, added));
    return chat;
}

conversation with_later_system_text() {
    conversation chat = with_answer();
    chat.messages.push_back(said(role::system, instructed));
    chat.messages.push_back(said(role::user, added));
    return chat;
}

conversation with_first_and_later_system_text() {
    conversation chat = with_later_system_text();
    chat.system = first_instructed;
    return chat;
}

conversation two_questions() {
    conversation chat = question();
    chat.messages.push_back(said(role::user, added));
    return chat;
}

conversation with_answer() {
    conversation chat = question();
    chat.messages.push_back(said(role::assistant, answered));
    return chat;
}

conversation two_answers() {
    conversation chat = with_answer();
    chat.messages.push_back(said(role::assistant, added));
    chat.messages.push_back(said(role::user, "more"));
    return chat;
}

conversation answer_first() {
    conversation chat;
    chat.messages = {said(role::assistant, answered), said(role::user, asked)};
    return chat;
}

conversation with_tool() {
    conversation chat = question();
    chat.tools = {{tool_name, "d", R"({"type":"object","properties":{}})"}};
    return chat;
}

conversation with_call() {
    conversation chat = with_tool();
    chat.messages.push_back({role::assistant, {call_of(call_id, argument)}});
    chat.messages.push_back(result());
    return chat;
}

conversation with_unanswered_call() {
    conversation chat = with_call();
    chat.messages.back() = said(role::user, added);
    return chat;
}

conversation with_two_calls() {
    constexpr const char* second_id = "probe0002";
    conversation chat = with_call();
    chat.messages[1].parts.emplace_back(call_of(second_id, added));
    chat.messages.push_back({role::tool, {tool_result_part{second_id, "r"}}});
    return chat;
}

conversation with_long_call_id() {
    constexpr const char* long_id = "call_probe_71c3-0123456789abcdef";
    conversation chat = with_tool();
    chat.messages.push_back({role::assistant, {call_of(long_id, argument)}});
    chat.messages.push_back({role::tool, {tool_result_part{long_id, returned}}});
    return chat;
}

conversation with_text_and_call() {
    conversation chat = with_call();
    auto& parts = chat.messages[1].parts;
    parts.insert(parts.begin(), text_part{answered});
    return chat;
}

conversation with_reasoned_call() {
    conversation chat = with_call();
    auto& parts = chat.messages[1].parts;
    parts.insert(parts.begin(), {thinking_part{"reasoning"}, text_part{answered}});
    return chat;
}

conversation with_question_after_result() {
    conversation chat = with_call();
    chat.messages.push_back(said(role::user, added));
    return chat;
}

conversation with_typed_calls(int count) {
    conversation chat = question();
    chat.tools = {{tool_name, "d",
                   R"({"type":"object","properties":{"k":{"type":"string","description":"k"},)"
                   R"("n":{"type":"integer","description":"n"}},"required":["k"]})"}};
    message called{role::assistant, {}};
    std::vector<message> results;
    for (int i = 0; i < count; ++i) {
        // Nine letters and digits: some templates take no other ids.
        const std::string id = "probe000" + std::to_string(i);
        const std::string number = std::to_string(71 + i);
        called.parts.emplace_back(tool_call_part{
            id, tool_name,
            std::string(R"({"k": ")") + argument + number + R"(", "n": )" + number + "}"});
        results.push_back({role::tool, {tool_result_part{id, returned}}});
    }
    chat.messages.push_back(std::move(called));
    for (message& one : results) chat.messages.push_back(std::move(one));
    return chat;
}

conversation with_stray_result() {
    conversation chat = with_answer();
    chat.messages.push_back(result());
    return chat;
}

}  // namespace semantic::engine::probe

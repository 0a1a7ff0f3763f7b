#include "engine/text/template/probe_conversations.hpp"

#include <string>

namespace semantic::engine::probe {

namespace {

constexpr const char* call_id = "probe0001";

message said(role from, const char* text) { return {from, {text_part{text}}}; }

message result() { return {role::tool, {tool_result_part{call_id, returned}}}; }

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

conversation with_later_system_text() {
    conversation chat = with_answer();
    chat.messages.push_back(said(role::system, instructed));
    chat.messages.push_back(said(role::user, added));
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

conversation with_tool() {
    conversation chat = question();
    chat.tools = {{tool_name, "d", R"({"type":"object","properties":{}})"}};
    return chat;
}

conversation with_call() {
    conversation chat = with_tool();
    const std::string arguments = std::string(R"({"k":")") + argument + "\"}";
    chat.messages.push_back({role::assistant, {tool_call_part{call_id, tool_name, arguments}}});
    chat.messages.push_back(result());
    return chat;
}

conversation with_stray_result() {
    conversation chat = with_answer();
    chat.messages.push_back(result());
    return chat;
}

}  // namespace semantic::engine::probe

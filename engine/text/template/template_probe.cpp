#include "engine/text/template/template_probe.hpp"

#include <utility>

namespace semantic::engine {

namespace {

constexpr const char* asked = "probe-asked-71c3";
constexpr const char* added = "probe-added-71c3";
constexpr const char* answered = "probe-answered-71c3";
constexpr const char* instructed = "probe-instructed-71c3";
constexpr const char* tool_name = "probe_tool_71c3";
constexpr const char* argument = "probe-argument-71c3";
constexpr const char* returned = "probe-returned-71c3";

message said(role from, const char* text) { return {from, {text_part{text}}}; }

bool prints(const chat_template& chat, const conversation& what, const char* part) {
    const auto text = chat.render(what);
    return text && text->find(part) != std::string::npos;
}

conversation asking() {
    conversation chat;
    chat.messages = {said(role::user, asked)};
    return chat;
}

conversation calling() {
    conversation chat = asking();
    chat.tools = {{tool_name, "d", R"({"type":"object","properties":{}})"}};
    const std::string arguments = std::string(R"({"k":")") + argument + "\"}";
    chat.messages.push_back({role::assistant, {tool_call_part{"probe0001", tool_name, arguments}}});
    chat.messages.push_back({role::tool, {tool_result_part{"probe0001", returned}}});
    return chat;
}

/// A result without its call.
conversation handing_over() {
    conversation chat = asking();
    chat.messages.push_back(said(role::assistant, answered));
    chat.messages.push_back({role::tool, {tool_result_part{"probe0001", returned}}});
    return chat;
}

}  // namespace

template_abilities abilities_of(const chat_template& chat) {
    template_abilities can;
    conversation what = asking();
    what.system = instructed;
    can.system_text = prints(chat, what, instructed);

    what = asking();
    for (const message& more :
         {said(role::assistant, answered), said(role::system, instructed), said(role::user, added)})
        what.messages.push_back(more);
    can.later_system_text = prints(chat, what, instructed);

    what = asking();
    what.messages.push_back(said(role::user, added));
    can.users_in_a_row = prints(chat, what, asked) && prints(chat, what, added);

    what = asking();
    what.tools = calling().tools;
    can.tools = prints(chat, what, tool_name);
    conversation untold = calling();  // templates may know calls and not what may be called
    untold.tools.clear();
    can.tool_calls = prints(chat, calling(), argument) || prints(chat, untold, argument);
    can.tool_results = prints(chat, calling(), returned) || prints(chat, handing_over(), returned);

    what = asking();
    what.messages.push_back(said(role::assistant, answered));
    what.end = prompt_end::inside_answer;
    const auto open = chat.render(what);
    can.open_answers = open && open->ends_with(answered);
    return can;
}

std::string missing_abilities(const template_abilities& of) {
    const std::pair<bool, const char*> all[]{
        {of.system_text, "a system text"},
        {of.later_system_text, "a later system text"},
        {of.users_in_a_row, "several user messages in a row"},
        {of.tools, "tools"},
        {of.tool_calls, "tool calls"},
        {of.tool_results, "tool results"},
        {of.open_answers, "answers that have begun"},
    };
    std::string missing;
    for (const auto& [is_there, name] : all)
        if (!is_there) missing.append(missing.empty() ? "" : ", ").append(name);
    return missing;
}

}  // namespace semantic::engine

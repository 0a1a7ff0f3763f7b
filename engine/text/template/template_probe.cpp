#include "engine/text/template/template_probe.hpp"

#include <utility>

#include "engine/text/template/probe_conversations.hpp"

namespace semantic::engine {

namespace {

bool prints(const chat_template& chat, const conversation& what, const char* part) {
    const auto text = chat.render(what);
    return text && text->find(part) != std::string::npos;
}

}  // namespace

template_abilities abilities_of(const chat_template& chat) {
    template_abilities can;
    can.system_text = prints(chat, probe::with_system_text(), probe::instructed);
    can.later_system_text = prints(chat, probe::with_later_system_text(), probe::instructed);
    const conversation two = probe::two_questions();
    can.users_in_a_row = prints(chat, two, probe::asked) && prints(chat, two, probe::added);
    can.tools = prints(chat, probe::with_tool(), probe::tool_name);

    const conversation told = probe::with_call();
    conversation untold = told;  // templates may know calls and not what may be called
    untold.tools.clear();
    can.tool_calls = prints(chat, told, probe::argument) || prints(chat, untold, probe::argument);
    can.tool_results = prints(chat, told, probe::returned) ||
                       prints(chat, probe::with_stray_result(), probe::returned);

    conversation begun = probe::with_answer();
    begun.end = prompt_end::inside_answer;
    const auto open = chat.render(begun);
    can.open_answers = open && open->ends_with(probe::answered);
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

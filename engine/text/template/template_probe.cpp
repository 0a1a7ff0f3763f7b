// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/template_probe.hpp"

#include <utility>

#include "engine/text/template/probe/probe_conversations.hpp"

namespace semantic::engine {

namespace {

/// Whether `shown` can be rendered and its text contains `part`.
bool prints(const chat_template& chat, const conversation& shown, const char* part) {
    const auto text = chat.render(shown);
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
    conversation untold = told;  // for templates that render calls, but no list of tools
    untold.tools.clear();
    can.tool_calls = prints(chat, told, probe::argument) || prints(chat, untold, probe::argument);
    const conversation both = probe::with_two_calls();
    conversation both_untold = both;
    both_untold.tools.clear();
    const auto prints_both = [&](const conversation& said) {
        return prints(chat, said, probe::argument) && prints(chat, said, probe::added);
    };
    can.parallel_tool_calls = prints_both(both) || prints_both(both_untold);
    can.tool_results = prints(chat, told, probe::returned) ||
                       prints(chat, probe::with_stray_result(), probe::returned);

    conversation begun = probe::with_answer();
    begun.end = prompt_end::inside_answer;
    const auto open = chat.render(begun);
    can.open_answers = open && open->ends_with(probe::answered);
    return can;
}

template_abilities own_places_of(const chat_template& chat) {
    const template_shape& shape = chat.shape();
    template_abilities can;
    can.system_text = shape.system_text;
    can.later_system_text = shape.later_system_text;
    can.users_in_a_row = shape.users_in_a_row;
    can.tools = shape.tools;
    can.tool_calls = shape.tool_calls;
    can.parallel_tool_calls = shape.tool_calls && shape.parallel_calls;
    can.tool_results = shape.tool_results || shape.stray_results;
    can.open_answers = abilities_of(chat).open_answers;
    return can;
}

std::string missing_abilities(const template_abilities& found) {
    const std::pair<bool, const char*> all[]{
        {found.system_text, "a system text"},
        {found.later_system_text, "a later system text"},
        {found.users_in_a_row, "several user messages in a row"},
        {found.tools, "tools"},
        {found.tool_calls, "tool calls"},
        // Without any calls, several in one message are not named as well.
        {found.parallel_tool_calls || !found.tool_calls, "several tool calls in a message"},
        {found.tool_results, "tool results"},
        {found.open_answers, "answers that have begun"},
    };
    std::string missing;
    for (const auto& [is_there, name] : all)
        if (!is_there) missing.append(missing.empty() ? "" : ", ").append(name);
    return missing;
}

std::vector<std::string> template_warnings(const chat_template& chat) {
    const std::string name = "chat-template " + chat.family();
    std::vector<std::string> warnings;
    if (!chat.assumed().empty())
        warnings.push_back(name + " is used because " + chat.assumed() +
                           ": the model may not have learnt to answer in it");
    template_abilities own = own_places_of(chat);
    if (!own.open_answers)
        warnings.push_back(name +
                           " cannot go on with an answer that has begun: requests with one "
                           "are refused");
    // It has a warning of its own, so it is not named again below.
    own.open_answers = true;
    if (const std::string missing = missing_abilities(own); !missing.empty())
        warnings.push_back(name + " has no place for " + missing +
                           ": they are told in other turns or as text");
    return warnings;
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "protocol/prompt_form.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <string>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol {

namespace {

constexpr std::size_t values_max = 128;

/// Whether this is a variable of the template that the server sets itself, or one that other
/// servers take as a field of the request.
bool is_servers(std::string_view name) {
    constexpr std::string_view names[]{"messages",
                                       "tools",
                                       "bos_token",
                                       "eos_token",
                                       "chat_template",
                                       "tokenize",
                                       "add_generation_prompt",
                                       "continue_final_message"};
    return std::ranges::find(names, name) != std::end(names);
}

/// Reads the switch of reasoning from the template variables. Complains where it contradicts the
/// request's own field for it.
void parse_switch(const json_cursor& root, const json_cursor& field,
                  engine::thinking_params& thinking) {
    const bool enabled = field.as_bool();
    for (const char* own : {"reasoning_effort", "thinking"})
        if (root.find(own) && thinking.enabled.value_or(true) != enabled)
            field.fail(errc::bad_value, std::string("contradicts ") + own);
    thinking.enabled = enabled;
}

/// Reads the reasoning effort from the template variables. Complains likewise.
void parse_effort(const json_cursor& root, const json_cursor& field,
                  engine::thinking_params& thinking) {
    const std::string_view text = field.as_string();
    if (root.find("reasoning_effort") && thinking.effort && *thinking.effort != text)
        field.fail(errc::bad_value, "contradicts reasoning_effort");
    if (text == "low" || text == "medium" || text == "high") thinking.effort = std::string(text);
}

/// Returns: the last message of the request, for complaints about it.
json_cursor last_message(const json_cursor& root) {
    const json_cursor list = root.at("messages");
    const std::size_t count = list.as_array().size();
    return count == 0 ? list : list.item(count - 1);
}

/// Complains where the last message is no answer that can be continued.
void check_open_answer(const json_cursor& place, const engine::conversation& chat) {
    if (chat.messages.back().from != engine::role::assistant)
        return place.fail(errc::bad_value,
                          "there is no answer to continue: the last message is not the "
                          "assistant's");
    for (const engine::content_part& part : chat.messages.back().parts)
        if (std::holds_alternative<engine::tool_call_part>(part))
            return place.fail(errc::unsupported,
                              "an assistant message with tool calls cannot be continued; send "
                              "their results");
}

}  // namespace

void parse_template_values(const json_cursor& root, engine::thinking_params& thinking,
                           engine::conversation& chat) {
    auto values = root.find("chat_template_kwargs");
    if (!values) return;
    boost::json::object kept;
    for (const auto& [key, value] : values->as_object()) {
        if (value.is_null()) continue;
        const json_cursor field = values->at(key);
        if (is_servers(key)) field.fail(errc::bad_value, "is not the request's to set here");
        const bool is_switch = key == "enable_thinking" || (key == "thinking" && value.is_bool());
        if (is_switch) parse_switch(root, field, thinking);
        if (key == "reasoning_effort") parse_effort(root, field, thinking);
        // The switch and the effort, too: a template may read them under the client's name.
        kept[key] = value;
    }
    const auto* one = kept.if_contains("enable_thinking");
    const auto* other = kept.if_contains("thinking");
    if (one && other && other->is_bool() && *one != *other)
        values->at("thinking").fail(errc::bad_value, "contradicts enable_thinking");
    if (kept.size() > values_max)
        values->fail(errc::bad_value, "may have " + std::to_string(values_max) + " items, has " +
                                          std::to_string(kept.size()));
    if (!kept.empty()) chat.template_values = to_text(kept);
}

void parse_prompt_end(const json_cursor& root, last_answer unless_said,
                      const engine::output_form& form, engine::conversation& chat) {
    using engine::prompt_end;
    const auto continues = root.find("continue_final_message");
    const auto begins = root.find("add_generation_prompt");
    const bool is_new = begins && begins->as_bool();
    bool is_open = continues && continues->as_bool();
    // Else there is a message: the readers of messages complain where there is none.
    if (!root.ok()) return;
    if (is_open && is_new)
        return continues->fail(errc::bad_value,
                               "an answer cannot go on and begin: add_generation_prompt is true");
    const bool ends_with_answer = chat.messages.back().from == engine::role::assistant;
    if (!continues && !begins && unless_said == last_answer::goes_on) is_open = ends_with_answer;
    const json_cursor place = continues ? *continues : begins ? *begins : last_message(root);
    if (is_open) {
        check_open_answer(place, chat);
        chat.end = prompt_end::inside_answer;
    } else if (begins && !is_new) {
        chat.end = prompt_end::messages;
    }
    if (chat.end != prompt_end::answer_begins && form.what != engine::output_form::kind::free)
        place.fail(errc::unsupported,
                   "an answer that must have a form, or call tools, has to begin anew");
}

}  // namespace semantic::protocol

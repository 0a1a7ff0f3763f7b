// SPDX-License-Identifier: Apache-2.0
// Llama 3.0, which knows no tools; Llama 3.1, 3.2 (text) and 3.3, where tools are in the first user
// turn, a call is the whole turn, and there is one call a turn.

#include <array>

#include "engine/text/output/json_text.hpp"
#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr std::string_view tools_begin =
    "Given the following functions, please respond with a JSON for a function call with its proper "
    "arguments that best answers the given prompt.\n\nRespond in the format {\"name\": function "
    "name, \"parameters\": dictionary of argument name and its value}.Do not use variables.\n\n";

void begin_turn(marked_text& out, std::string_view role_name) {
    out.write("<|start_header_id|>").write(role_name).write("<|end_header_id|>\n\n");
}

void append_turn(marked_text& out, std::string_view role_name, std::string_view content) {
    begin_turn(out, role_name);
    out.fill_in(trimmed(content)).write("<|eot_id|>");
}

/// The day as "03 Nov 2025".
std::string long_day(std::chrono::year_month_day day) {
    static constexpr std::array<std::string_view, 12> months{
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const auto number = static_cast<unsigned>(day.day());
    const auto month = static_cast<unsigned>(day.month());
    std::string text(number < 10 ? "0" : "");
    text.append(std::to_string(number)).append(" ").append(months[month - 1]).append(" ");
    return text + std::to_string(static_cast<int>(day.year()));
}

/// Appends the first turn of the user, with the tools in front of the user's text
/// (`first_content`). Errors: bad_value from a tool whose parameters are no JSON object.
result<void> append_tools(marked_text& out, const std::vector<tool_definition>& tools,
                          std::string_view first_content) {
    begin_turn(out, "user");
    out.write(tools_begin);
    for (const tool_definition& tool : tools) {
        auto text = indented_tool_text(tool);
        if (!text) return text.error();
        out.fill_in(*text).write("\n\n");
    }
    out.fill_in(trimmed(first_content)).write("<|eot_id|>");
    return {};
}

/// Appends an assistant's turn that is one call. The message's text is left out, because the
/// published template has no place for it. Errors: bad_value for more than one call.
result<void> append_call(marked_text& out, const std::vector<tool_call_part>& calls) {
    if (calls.size() > 1) {
        return failure{errc::bad_value,
                       "chat template family llama3 has one tool call a message, and there are " +
                           std::to_string(calls.size())};
    }
    begin_turn(out, "assistant");
    out.write("{\"name\": \"").fill_in(calls.front().name);
    out.write("\", \"parameters\": ").fill_in(arguments_text(calls.front()));
    out.write("}<|eot_id|>");
    return {};
}

}  // namespace

result<marked_text> render_llama30(const template_input& input) {
    if (has_tools(input)) return no_tools_in("llama3.0");
    marked_text out("<|begin_of_text|>", false);
    for (const template_message& from : input.messages) {
        append_turn(out, name_of(from.from), from.content);
    }
    begin_turn(out, "assistant");
    return out;
}

/// Errors: bad_value for a day that is none, for tools without a first message of the user, and for
/// several calls in a message.
result<marked_text> render_llama3(const template_input& input) {
    const auto day = day_of(input.options);
    if (!day) return day.error();
    const auto& messages = input.messages;
    const bool has_system = messages.front().from == role::system;
    marked_text out("<|begin_of_text|>", false);
    begin_turn(out, "system");
    if (!input.tools.empty()) out.write("Environment: ipython\n");
    out.write("Cutting Knowledge Date: December 2023\nToday Date: ").write(long_day(*day));
    out.write("\n\n");
    if (has_system) out.fill_in(trimmed(messages.front().content));
    out.write("<|eot_id|>");
    std::size_t i = has_system ? 1 : 0;
    if (!input.tools.empty()) {
        if (i == messages.size() || messages[i].from != role::user) {
            return failure{errc::bad_value,
                           "chat template family llama3 puts the tools into the first message, "
                           "which must be from the user"};
        }
        auto done = append_tools(out, input.tools, messages[i].content);
        if (!done) return done.error();
        ++i;
    }
    for (; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        if (append_as_sampled(out, from, "<|eot_id|>")) continue;
        if (from.from == role::tool) {
            begin_turn(out, "ipython");
            out.fill_in(quoted(from.content)).write("<|eot_id|>");
        } else if (!from.calls.empty()) {
            if (auto done = append_call(out, from.calls); !done) return done.error();
        } else {
            append_turn(out, name_of(from.from), from.content);
        }
    }
    begin_turn(out, "assistant");
    return out;
}

}  // namespace semantic::engine

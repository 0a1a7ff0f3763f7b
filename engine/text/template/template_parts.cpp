// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/template_parts.hpp"

#include <boost/json.hpp>

#include <charconv>
#include <limits>

#include "engine/text/jinja/values/parse_json.hpp"
#include "engine/text/jinja/values/print.hpp"
#include "engine/text/output/json_text.hpp"
#include "engine/text/output/written_arguments.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr std::string_view hermes_begin =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view hermes_end =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n";
constexpr std::string_view hermes_call =
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}";
/// The day where the request names none: a fixed one, so that a conversation's prompt does not
/// change with the date.
constexpr std::string_view default_day = "2024-07-26";

/// Python's isspace() counts the four separators of ASCII too, which Unicode's White_Space leaves
/// out.
bool is_python_space(std::int32_t code) {
    return utf8::is_space(code) || (code >= 0x1C && code <= 0x1F);
}

/// Reads a decimal number that is the whole of `text`. Returns: false when it is none, or negative.
bool read_number(std::string_view text, int& number) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && at == end && number >= 0;
}

}  // namespace

std::string_view name_of(role from) {
    switch (from) {
        case role::system:
            return "system";
        case role::user:
            return "user";
        case role::assistant:
            return "assistant";
        case role::tool:
            return "tool";
    }
    return "unknown";
}

namespace {

/// Prints `json` as json.dumps(ensure_ascii=False) does, but for numbers, which stay as they are
/// spelled. Errors: bad_value, naming `owner`, when it is no object.
result<std::string> printed_object(std::string_view json, const jinja::json_format& format,
                                   const std::string& owner) {
    try {
        const auto read = jinja::parse_json(json);
        if (!read) return failure{errc::bad_value, owner + " is not JSON, or nested too deeply"};
        if (read->as_dict() == nullptr)
            return failure{errc::bad_value, owner + " is not a JSON object"};
        jinja::budget enough(std::numeric_limits<std::uint64_t>::max());
        return jinja::to_json(*read, format, enough).bytes();
    } catch (const jinja::stopped& too_large) {
        return failure{errc::bad_value, owner + ": " + too_large.message};
    }
}

}  // namespace

result<std::string> tool_text(const tool_definition& tool) {
    std::string out = R"({"type": "function", "function": {"name": )" + quoted(tool.name);
    if (!tool.description.empty()) out += R"(, "description": )" + quoted(tool.description);
    if (!tool.parameters_json.empty()) {
        auto parameters =
            printed_object(tool.parameters_json, {}, "tool " + tool.name + ": parameters");
        if (!parameters) return parameters.error();
        out += R"(, "parameters": )" + *parameters;
    }
    return out + "}}";
}

result<std::string> indented_tool_text(const tool_definition& tool) {
    auto text = tool_text(tool);
    if (!text) return text.error();
    jinja::json_format lines;
    lines.indent.emplace(std::string(4, ' '), false);
    lines.item_separator = {",", false};
    return printed_object(*text, lines, "tool " + tool.name);
}

std::string arguments_text(const tool_call_part& call) {
    const std::string object = object_of_arguments(call.arguments_json);
    // An object that cannot be printed, since it is nested too deeply, is written as it is.
    auto text = printed_object(object, {}, "arguments");
    return text ? *std::move(text) : object;
}

boost::json::value parse_template_values(std::string_view text) {
    boost::system::error_code error;
    boost::json::parse_options options;
    // As deep as values of templates may be; Boost.JSON's own limit is 32.
    options.max_depth = 100;
    boost::json::value json = boost::json::parse(text, error, {}, options);
    return error ? boost::json::value() : json;
}

void append_chatml_turn(marked_text& out, std::string_view role_name, std::string_view content) {
    out.write("<|im_start|>").write(role_name).write("\n");
    out.fill_in(content).write("<|im_end|>\n");
}

result<std::string> hermes_tools_text(const std::vector<tool_definition>& tools) {
    std::string out(hermes_begin);
    for (const tool_definition& tool : tools) {
        auto text = tool_text(tool);
        if (!text) return text.error();
        out.append("\n").append(*text);
    }
    return out.append(hermes_end).append(hermes_call).append("\n</tool_call>");
}

result<void> append_hermes_tools(marked_text& out, std::string_view system,
                                 const template_input& input) {
    out.write("<|im_start|>system\n").fill_in(system).write(hermes_begin);
    for (const tool_definition& tool : input.tools) {
        auto text = tool_text(tool);
        if (!text) return text.error();
        out.write("\n").fill_in(*text);
    }
    const bool doubled = input.family.doubled_braces;
    out.write(hermes_end).write(doubled ? "{" : "").write(hermes_call);
    out.write(doubled ? "}" : "").write("\n</tool_call><|im_end|>\n");
    return {};
}

void append_hermes_call(marked_text& out, const tool_call_part& call) {
    // The templates put the name between quotes as it is.
    out.write("<tool_call>\n{\"name\": \"").fill_in(call.name);
    out.write("\", \"arguments\": ").fill_in(arguments_text(call)).write("}\n</tool_call>");
}

void append_hermes_result(marked_text& out, const std::vector<template_message>& messages,
                          std::size_t index) {
    const auto is_tool = [&](std::size_t i) {
        return i < messages.size() && messages[i].from == role::tool;
    };
    if (index == 0 || !is_tool(index - 1)) out.write("<|im_start|>user");
    out.write("\n<tool_response>\n").fill_in(messages[index].content);
    out.write("\n</tool_response>");
    if (!is_tool(index + 1)) out.write("<|im_end|>\n");
}

bool append_as_sampled(marked_text& out, const template_message& from, std::string_view end) {
    if (from.as_sampled.empty()) return false;
    const auto& content = from.as_sampled_content;
    out.append(marked_text(std::string(from.as_sampled), {content.begin(), content.end()}));
    out.write(end);
    return true;
}

result<std::chrono::year_month_day> day_of(const render_options& options) {
    const std::string_view text = options.date.empty() ? default_day : options.date;
    int year = 0;
    int month = 0;
    int day = 0;
    if (text.size() == 10 && text[4] == '-' && text[7] == '-' &&
        read_number(text.substr(0, 4), year) && read_number(text.substr(5, 2), month) &&
        read_number(text.substr(8, 2), day)) {
        const std::chrono::year_month_day made{std::chrono::year(year),
                                               std::chrono::month(static_cast<unsigned>(month)),
                                               std::chrono::day(static_cast<unsigned>(day))};
        if (made.ok()) return made;
    }
    return failure{errc::bad_value, "date '" + std::string(text) + "' is not a day as yyyy-mm-dd"};
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty()) {
        const utf8::step first = utf8::next(text);
        if (first.code < 0 || !is_python_space(first.code)) break;
        text.remove_prefix(first.length);
    }
    while (!text.empty()) {
        const std::size_t start = utf8::start_of_last(text, text.size());
        const utf8::step last = utf8::next(text.substr(start));
        if (last.code < 0 || !is_python_space(last.code)) break;
        text = text.substr(0, start);
    }
    return text;
}

bool has_tools(const template_input& input) {
    if (!input.tools.empty()) return true;
    for (const template_message& from : input.messages) {
        if (from.from == role::tool || !from.calls.empty()) return true;
    }
    return false;
}

failure no_tools_in(std::string_view family) {
    return {errc::bad_value,
            "chat template family " + std::string(family) +
                " has no form for tools: send none, and no tool calls and tool results"};
}

}  // namespace semantic::engine

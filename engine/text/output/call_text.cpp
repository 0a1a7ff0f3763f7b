// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/call_text.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/text/output/calls/json_stream.hpp"
#include "engine/text/output/json_text.hpp"
#include "engine/text/output/written_arguments.hpp"

namespace semantic::engine {

namespace {

/// The call's arguments as a JSON object, also where the client sent something else.
std::string arguments_of(const tool_call_part& call) {
    return object_of_arguments(call.arguments_json);
}

/// The call as a JSON object, {"name": ..., "arguments": {...}}.
std::string object_of(const tool_call_part& call) {
    return "{\"name\": " + quoted(call.name) + ", \"arguments\": " + respaced(arguments_of(call)) +
           "}";
}

struct member {
    std::string_view key;  // as JSON
    std::string_view value;
};

/// Splits an object in compact JSON into its members, whose texts are views of `object`. The values
/// are not converted, so that numbers keep all their digits.
std::vector<member> members_of(std::string_view object) {
    std::vector<member> members;
    std::size_t begin = 1, colon = 0, depth = 0;  // begin: of the current key, after the brace
    bool in_string = false, is_escaped = false;
    for (std::size_t i = 0; i < object.size(); ++i) {
        const char c = object[i];
        if (in_string) {
            in_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        in_string = c == '"';
        if (c == '{' || c == '[') ++depth;
        if (depth == 1 && c == ':') colon = i;
        if (depth == 1 && (c == ',' || c == '}')) {
            // Without a colon the object is empty.
            if (colon > begin)
                members.push_back(
                    {object.substr(begin, colon - begin), object.substr(colon + 1, i - colon - 1)});
            begin = i + 1;
        }
        if (c == '}' || c == ']') --depth;
    }
    return members;
}

/// The JSON value as Python writes it. Words inside lists and objects stay as in JSON: the readers
/// of Python calls accept both.
std::string python_of(std::string_view value) {
    if (value == "null") return "None";
    if (value == "true") return "True";
    if (value == "false") return "False";
    return respaced(value);
}

/// Whether a parameter's name can be written as a keyword in a Python call (ASCII letters, digits
/// and underscores, and no digit first: the last ten of `letters` are the digits).
bool is_keyword(std::string_view name) {
    constexpr std::string_view letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return !name.empty() && letters.find(name.front()) < letters.size() - 10 &&
           name.find_first_not_of(letters) == std::string_view::npos;
}

/// The call as f(key=value, ...), or as f(**{...}) when a name cannot be a keyword.
std::string python_call_of(const tool_call_part& call) {
    const std::string text = arguments_of(call);
    std::string made;
    for (const member& each : members_of(text)) {
        const std::string key = text_of_json(each.key);
        if (!is_keyword(key)) return call.name + "(**" + respaced(text) + ")";
        made += (made.empty() ? "" : ", ") + key + "=" + python_of(each.value);
    }
    return call.name + "(" + made + ")";
}

template <class Written>
std::string joined(std::span<const tool_call_part> calls, std::string_view separator,
                   Written written) {
    std::string out;
    for (const tool_call_part& call : calls) {
        if (&call != &calls.front()) out += separator;
        out += written(call);
    }
    return out;
}

}  // namespace

std::string text_of_calls(call_format format, std::span<const tool_call_part> calls) {
    // Only Kimi's calls are numbered.
    std::size_t number = 0;
    switch (format) {
        case call_format::lfm2:
            return "<|tool_call_start|>[" + joined(calls, ", ", python_call_of) +
                   "]<|tool_call_end|>";
        case call_format::olmo:
            return "<function_calls>" + joined(calls, "\n", python_call_of) + "</function_calls>";
        case call_format::granite:
            return "<|tool_call|>[" + joined(calls, ", ", object_of) + "]";
        case call_format::kimi:
            return "<|tool_calls_section_begin|>" +
                   joined(calls, "",
                          [&](const auto& call) {
                              return "<|tool_call_begin|>functions." + call.name + ":" +
                                     std::to_string(number++) + "<|tool_call_argument_begin|>" +
                                     respaced(arguments_of(call)) + "<|tool_call_end|>";
                          }) +
                   "<|tool_calls_section_end|>";
        case call_format::deepseek:
            return "<｜tool▁calls▁begin｜>" +
                   joined(calls, "\n",
                          [](const auto& call) {
                              return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + call.name +
                                     "\n```json\n" + respaced(arguments_of(call)) +
                                     "\n```<｜tool▁call▁end｜>";
                          }) +
                   "<｜tool▁calls▁end｜>";
        default:
            break;
    }
    return joined(calls, "\n", [](const auto& call) {
        return "<tool_call>\n" + object_of(call) + "\n</tool_call>";
    });
}

}  // namespace semantic::engine

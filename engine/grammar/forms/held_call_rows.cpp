// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/held_call_rows.hpp"

#include <array>

namespace semantic::engine {

namespace {

constexpr held_call_row object_between_tool_call_tags(call_format format) {
    return {.format = format,
            .written_as = held_call_row::body::object,
            .open = "<tool_call>",
            .before = "\n",
            .end = "\n</tool_call>",
            .separator = "\n<tool_call>",
            .each_is_a_section = true};
}

constexpr held_call_row object_list(call_format format, std::string_view open,
                                    std::string_view end) {
    return {.format = format,
            .written_as = held_call_row::body::object,
            .open = open,
            .before = {},
            .separator = ", ",
            .close = end};
}

// Models that have learnt tags around parameters are constrained to arguments in JSON, which their
// parsers read, too.
constexpr std::array rows{
    object_between_tool_call_tags(call_format::hermes),
    object_between_tool_call_tags(call_format::qwen_xml),
    object_between_tool_call_tags(call_format::glm),
    object_list(call_format::mistral, "[TOOL_CALLS][", "]"),
    object_list(call_format::granite, "<|tool_call|>[", "]"),
    object_list(call_format::nemotron, "<TOOLCALL>[", "]</TOOLCALL>"),
    object_list(call_format::tool_calls, "<tool_calls>[", "]</tool_calls>"),
    held_call_row{.format = call_format::gigachat,
                  .written_as = held_call_row::body::object,
                  .open = "<|function_call|>",
                  .separator = "\n<|function_call|>",
                  .each_is_a_section = true},
    held_call_row{.format = call_format::kimi,
                  .written_as = held_call_row::body::named,
                  .open = "<|tool_calls_section_begin|>",
                  .before = "<|tool_call_begin|>functions.",
                  .name_end = ":#<|tool_call_argument_begin|>",
                  .end = "<|tool_call_end|>",
                  .close = "<|tool_calls_section_end|>"},
    held_call_row{.format = call_format::seed,
                  .written_as = held_call_row::body::named,
                  .open = "<seed:tool_call>",
                  .before = "\n<function=",
                  .name_end = ">\n",
                  .end = "\n</function>\n</seed:tool_call>",
                  .separator = "\n<seed:tool_call>",
                  .each_is_a_section = true},
    held_call_row{.format = call_format::minimax,
                  .written_as = held_call_row::body::named,
                  .open = "<minimax:tool_call>",
                  .before = "\n<invoke name=\"",
                  .name_end = "\">\n",
                  .end = "\n</invoke>",
                  .close = "\n</minimax:tool_call>"},
    held_call_row{.format = call_format::dsml,
                  .written_as = held_call_row::body::named,
                  .open = "<｜DSML｜function_calls>",
                  .before = "\n<｜DSML｜invoke name=\"",
                  .name_end = "\">\n",
                  .end = "\n</｜DSML｜invoke>",
                  .close = "\n</｜DSML｜function_calls>"},
    held_call_row{.format = call_format::minicpm,
                  .written_as = held_call_row::body::named,
                  .open = "<function name=\"",
                  .name_end = "\">",
                  .end = "</function>",
                  .separator = "\n<function name=\"",
                  .each_is_a_section = true},
};

}  // namespace

const held_call_row* find_held_call_row(call_format format) noexcept {
    for (const held_call_row& row : rows)
        if (row.format == format) return &row;
    return nullptr;
}

}  // namespace semantic::engine

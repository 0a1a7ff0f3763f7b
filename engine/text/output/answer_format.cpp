// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/answer_format.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace semantic::engine {

namespace {

/// A call format, and texts that a template's source contains when its model uses the format.
struct call_marks {
    call_format format;
    std::vector<std::string_view> all;  // all of them must be in the source
};

// The first row that fits counts: rows that several formats share come last.
const std::vector<call_marks>& call_table() {
    static const std::vector<call_marks> table{
        {call_format::harmony, {"<|channel|>", "<|message|>", "functions."}},
        {call_format::seed, {"<seed:tool_call>"}},
        {call_format::qwen_xml, {"<function=", "<parameter="}},
        {call_format::glm, {"<arg_key>", "<arg_value>"}},
        {call_format::deepseek, {"<｜tool▁call▁begin｜>"}},
        {call_format::dsml, {"｜DSML｜", "invoke name="}},
        {call_format::kimi, {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"}},
        {call_format::minimax, {"<minimax:tool_call>", "<invoke name="}},
        {call_format::minicpm, {"<function name=\"", "<param name=\""}},
        {call_format::function_gemma, {"<start_function_call>"}},
        {call_format::gemma4, {"<|tool_call>"}},
        {call_format::granite, {"<|tool_call|>"}},
        {call_format::nemotron, {"<TOOLCALL>"}},
        {call_format::mistral, {"[TOOL_CALLS]"}},
        {call_format::lfm2, {"<|tool_call_start|>"}},
        {call_format::lfm2, {"List of tools: <|tool_list_start|>["}},
        // Templates of LFM2.5 show tools in these words and leave out calls; only the vocabulary
        // has the marks.
        {call_format::lfm2, {"<|im_start|>", "List of tools: [", "keep_past_thinking"}},
        {call_format::tool_code, {"```tool_code"}},
        {call_format::olmo, {"<functions>", "<function_calls>"}},
        {call_format::gigachat, {"<|function_call|>"}},
        {call_format::tool_calls, {"<tool_calls>", "</tool_calls>"}},
        {call_format::hermes, {"<tool_call>"}},
        {call_format::llama3, {"<|python_tag|>"}},
        {call_format::llama3, {"\"parameters\": dictionary of argument"}},
    };
    return table;
}

struct format_name {
    call_format format;
    std::string_view name;
};
constexpr std::array format_names{
    format_name{call_format::hermes, "hermes"},
    format_name{call_format::qwen_xml, "qwen-xml"},
    format_name{call_format::glm, "glm"},
    format_name{call_format::llama3, "llama3"},
    format_name{call_format::mistral, "mistral"},
    format_name{call_format::deepseek, "deepseek"},
    format_name{call_format::harmony, "harmony"},
    format_name{call_format::function_gemma, "function-gemma"},
    format_name{call_format::gemma4, "gemma4"},
    format_name{call_format::tool_code, "tool-code"},
    format_name{call_format::lfm2, "lfm2"},
    format_name{call_format::kimi, "kimi"},
    format_name{call_format::seed, "seed"},
    format_name{call_format::minimax, "minimax"},
    format_name{call_format::dsml, "dsml"},
    format_name{call_format::minicpm, "minicpm"},
    format_name{call_format::granite, "granite"},
    format_name{call_format::nemotron, "nemotron"},
    format_name{call_format::tool_calls, "tool-calls"},
    format_name{call_format::gigachat, "gigachat"},
    format_name{call_format::olmo, "olmo"},
};
constexpr auto all_formats = [] {
    std::array<call_format, format_names.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = format_names[i].format;
    return all;
}();

struct thinking_marks {
    thinking_format format;
    std::string_view mark;
};
constexpr std::array thinking_table{
    thinking_marks{thinking_format::harmony, "<|channel|>analysis"},
    thinking_marks{thinking_format::gemma4, "<|channel>"},
    thinking_marks{thinking_format::mistral, "[THINK]"},
    thinking_marks{thinking_format::seed, "</seed:think>"},
    thinking_marks{thinking_format::think, "</think>"},
};

}  // namespace

std::span<const call_format> call_formats() noexcept { return all_formats; }

std::string_view name_of(call_format format) noexcept {
    for (const format_name& row : format_names)
        if (row.format == format) return row.name;
    return "none";
}

std::string_view name_of(thinking_format format) noexcept {
    switch (format) {
        case thinking_format::none:
            return "none";
        case thinking_format::think:
            return "think";
        case thinking_format::mistral:
            return "mistral";
        case thinking_format::gemma4:
            return "gemma4";
        case thinking_format::seed:
            return "seed";
        case thinking_format::harmony:
            return "harmony";
    }
    return "none";
}

/// Of each table the first row that fits counts.
answer_format found_in_template(std::string_view source) {
    const auto in_source = [&](std::string_view mark) {
        return source.find(mark) != std::string_view::npos;
    };
    answer_format found;
    for (const call_marks& row : call_table()) {
        if (!std::all_of(row.all.begin(), row.all.end(), in_source)) continue;
        found.calls = row.format;
        break;
    }
    for (const thinking_marks& row : thinking_table) {
        if (!in_source(row.mark)) continue;
        found.thinking = row.format;
        break;
    }
    // In Harmony calls and reasoning come in channels, so that each implies the other.
    if (found.calls == call_format::harmony) found.thinking = thinking_format::harmony;
    if (found.thinking == thinking_format::harmony) found.calls = call_format::harmony;
    return found;
}

std::string_view thinking_open_of(thinking_format format) noexcept {
    switch (format) {
        case thinking_format::think:
            return "<think>";
        case thinking_format::mistral:
            return "[THINK]";
        case thinking_format::gemma4:
            return "<|channel>thought";
        case thinking_format::seed:
            return "<seed:think>";
        case thinking_format::harmony:
        case thinking_format::none:
            break;
    }
    return {};
}

std::string_view thinking_close_of(thinking_format format) noexcept {
    switch (format) {
        case thinking_format::think:
            return "</think>";
        case thinking_format::mistral:
            return "[/THINK]";
        case thinking_format::gemma4:
            return "<channel|>";
        case thinking_format::seed:
            return "</seed:think>";
        case thinking_format::harmony:
        case thinking_format::none:
            break;
    }
    return {};
}

std::string thinking_end_of(thinking_format format) {
    switch (format) {
        case thinking_format::think:
            return "\n</think>\n\n";
        case thinking_format::mistral:
            return "[/THINK]";
        case thinking_format::gemma4:
            return "<channel|>";
        case thinking_format::seed:
            return "</seed:think>\n";
        case thinking_format::harmony:
            return "<|end|><|start|>assistant<|channel|>final<|message|>";
        case thinking_format::none:
            break;
    }
    return {};
}

}  // namespace semantic::engine

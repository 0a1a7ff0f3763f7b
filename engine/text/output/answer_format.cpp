#include "engine/text/output/answer_format.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace semantic::engine {

namespace {

struct call_marks {
    call_format format;
    std::vector<std::string_view> all;  // these are in the source
};

// The first row that fits counts: what several formats share stands last.
const std::vector<call_marks>& call_table() {
    static const std::vector<call_marks> table{
        {call_format::harmony, {"<|channel|>", "<|message|>", "functions."}},
        {call_format::qwen_xml, {"<function=", "<parameter="}},
        {call_format::glm, {"<arg_key>", "<arg_value>"}},
        {call_format::deepseek, {"<｜tool▁call▁begin｜>"}},
        {call_format::function_gemma, {"<start_function_call>"}},
        {call_format::gemma4, {"<|tool_call>"}},
        {call_format::mistral, {"[TOOL_CALLS]"}},
        {call_format::tool_code, {"```tool_code"}},
        {call_format::hermes, {"<tool_call>"}},
        {call_format::llama3, {"<|python_tag|>"}},
        {call_format::llama3, {"\"parameters\": dictionary of argument"}},
    };
    return table;
}

struct thinking_marks {
    thinking_format format;
    std::string_view mark;
};
constexpr std::array thinking_table{
    thinking_marks{thinking_format::harmony, "<|channel|>analysis"},
    thinking_marks{thinking_format::gemma4, "<|channel>"},
    thinking_marks{thinking_format::mistral, "[THINK]"},
    thinking_marks{thinking_format::think, "</think>"},
};

}  // namespace

std::string_view name_of(call_format format) noexcept {
    switch (format) {
        case call_format::none:
            return "none";
        case call_format::hermes:
            return "hermes";
        case call_format::qwen_xml:
            return "qwen-xml";
        case call_format::glm:
            return "glm";
        case call_format::llama3:
            return "llama3";
        case call_format::mistral:
            return "mistral";
        case call_format::deepseek:
            return "deepseek";
        case call_format::harmony:
            return "harmony";
        case call_format::function_gemma:
            return "function-gemma";
        case call_format::gemma4:
            return "gemma4";
        case call_format::tool_code:
            return "tool-code";
    }
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
        case thinking_format::harmony:
            return "harmony";
    }
    return "none";
}

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
    // Channels hold calls and reasoning alike.
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
        case thinking_format::harmony:
            return "<|end|><|start|>assistant<|channel|>final<|message|>";
        case thinking_format::none:
            break;
    }
    return {};
}

}  // namespace semantic::engine

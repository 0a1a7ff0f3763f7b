// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a model writes what is no plain text: its tool calls and its reasoning. Known of a family, or
// found from what a template writes and from the marks in its source. Plain values.

#include <span>
#include <string>
#include <string_view>

namespace semantic::engine {

enum class call_format {
    none,
    hermes,          // <tool_call>{"name": ..., "arguments": ...}</tool_call>
    qwen_xml,        // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function>...
    glm,             // <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...
    llama3,          // {"name": ..., "parameters": ...}, the whole answer
    mistral,         // [TOOL_CALLS][{"name": ..., "arguments": ...}], or NAME[ARGS]{...}
    deepseek,        // <｜tool▁calls▁begin｜>...
    harmony,         // a message to functions.NAME
    function_gemma,  // <start_function_call>call:NAME{key:<escape>VALUE<escape>}...
    gemma4,          // <|tool_call>call:NAME{key:<|"|>VALUE<|"|>}...
    tool_code,       // ```tool_code, and calls as Python
    lfm2,            // <|tool_call_start|>[NAME(KEY=VALUE, ...)]<|tool_call_end|>
    kimi,            // <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0...
    seed,            // <seed:tool_call><function=NAME>, then as qwen_xml
    minimax,         // <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE...
    dsml,            // the same with <｜DSML｜invoke, DeepSeek's from V3.2 on
    minicpm,         // <function name="NAME"><param name="KEY">VALUE</param></function>
    granite,         // <|tool_call|>[{"name": ..., "arguments": ...}, ...]
    nemotron,        // <TOOLCALL>[{"name": ..., "arguments": ...}, ...]</TOOLCALL>
    tool_calls,      // <tool_calls>[{"name": ..., "arguments": ...}, ...]</tool_calls>
    gigachat,        // <|function_call|>{"name": ..., "arguments": ...}
    olmo             // <function_calls>, and calls as Python, a line each
};

enum class thinking_format {
    none,
    think,    // <think> ... </think>
    mistral,  // [THINK] ... [/THINK]
    gemma4,   // <|channel>thought ... <channel|>
    seed,     // <seed:think> ... </seed:think>
    harmony   // the analysis channel
};

/// What a prompt does to reasoning: the answer may have to open it, or go on inside.
struct thinking_opened {
    bool when_on = false;
    bool when_off = false;
    bool operator==(const thinking_opened&) const = default;
};

struct answer_format {
    call_format calls = call_format::none;
    thinking_format thinking = thinking_format::none;
    thinking_opened opened{};
    bool thinks_unless_said = true;  // where a request does not say whether to reason
    bool drops_blank = false;        // the one at the head of an answer is the template's
    bool operator==(const answer_format&) const = default;
};

/// All but none.
std::span<const call_format> call_formats() noexcept;
/// "hermes", "qwen-xml", ...; "none".
std::string_view name_of(call_format format) noexcept;
/// "think", ...; "none".
std::string_view name_of(thinking_format format) noexcept;

/// By stretches of the source that only templates of a format have; the table is in the .cpp. The
/// source does not say what the prompt opens. Where a template writes calls itself, what it writes
/// decides (template/call_probe.hpp), and not its source.
answer_format found_in_template(std::string_view source);

/// The text that reasoning begins with, without a line break after it, and ends with; empty:
/// nothing.
std::string_view thinking_open_of(thinking_format format) noexcept;
std::string_view thinking_close_of(thinking_format format) noexcept;
/// What ends reasoning when a model is made to stop it; empty where there is nothing to end.
std::string thinking_end_of(thinking_format format);

}  // namespace semantic::engine

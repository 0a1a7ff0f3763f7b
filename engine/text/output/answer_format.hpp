// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a model writes tool calls and reasoning. Known from the template's family, or found from what
// a template writes and from the marks in its source. Plain values.

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

/// Whether the prompt has opened reasoning already, so that the answer begins inside it.
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

/// All formats but `none`.
std::span<const call_format> call_formats() noexcept;
/// The name of a format for logs and settings: "hermes", "qwen-xml", ..., or "none".
std::string_view name_of(call_format format) noexcept;
/// The name of a format of reasoning: "think", ..., or "none".
std::string_view name_of(thinking_format format) noexcept;

/// Finds the format by parts of a template's source that only templates of one format have; the
/// table is in the .cpp. Does not find what the prompt opens. For templates that write calls
/// themselves call_probe.hpp is used instead.
answer_format found_in_template(std::string_view source);

/// The texts that begin and end reasoning, without a line break; empty if the format has none.
std::string_view thinking_open_of(thinking_format format) noexcept;
std::string_view thinking_close_of(thinking_format format) noexcept;
/// The text that is forced to end a model's reasoning; empty if the format has none.
std::string thinking_end_of(thinking_format format);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts that several renderers share. For template_*.cpp only. A renderer adds texts of the request
// with fill_in(), which marks them as content, and text with control tokens with write().

#include <boost/json/value.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

/// The definition of a tool as templates print it: {"type": "function", "function": {...}}. Errors:
/// bad_value.
storage::result<std::string> tool_text(const tool_definition& tool);
/// The definition of a tool over several lines, as Python's json.dumps(indent=4) prints it. Errors:
/// bad_value.
storage::result<std::string> indented_tool_text(const tool_definition& tool);
/// The arguments of a call as templates print them; repaired by object_of_arguments() if invalid.
std::string arguments_text(const tool_call_part& call);

/// conversation::template_values as JSON; null if it is invalid.
boost::json::value parse_template_values(std::string_view text);

/// "<|im_start|>ROLE\nCONTENT<|im_end|>\n"
void append_chatml_turn(marked_text& out, std::string_view role_name, std::string_view content);
/// The text that offers tools as Hermes does, without a turn around it. Errors: bad_value.
storage::result<std::string> hermes_tools_text(const std::vector<tool_definition>& tools);
/// Appends the system turn that offers tools as Hermes does. `system`: the text that it begins
/// with; may be empty.
storage::result<void> append_hermes_tools(marked_text& out, std::string_view system,
                                          const template_input& input);
/// <tool_call>\n{"name": ..., "arguments": ...}\n</tool_call>
void append_hermes_call(marked_text& out, const tool_call_part& call);
/// Results of neighbouring messages share one user turn; `index` is of a message of role tool.
void append_hermes_result(marked_text& out, const std::vector<template_message>& messages,
                          std::size_t index);

/// Appends a turn that the model itself wrote, and what ends it. Returns: false when it is none.
bool append_as_sampled(marked_text& out, const template_message& from, std::string_view end);

/// "system", "user", "assistant", "tool".
std::string_view name_of(role from);
/// Errors: bad_value for what is not a day written yyyy-mm-dd.
storage::result<std::chrono::year_month_day> day_of(const render_options& options);
/// Without white space at both ends, as Python's strip() leaves it.
std::string_view trimmed(std::string_view text);
/// Whether there are tools, calls or results. Templates that know none would leave them out without
/// a word, and the model would answer something else than it was asked.
bool has_tools(const template_input& input);
/// The error for a family that has no words for tools.
storage::failure no_tools_in(std::string_view family);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields that both of the vendor's APIs, and others that follow them, write alike. Pure. What
// parses complains of what it reads, as json_cursor does.

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::openai {

/// Reads how much to reason. `none` switches reasoning off where the model can; finer steps become
/// the nearest of low, medium and high.
engine::thinking_params parse_effort(const json_cursor& field);

/// Reads the body's `tools`, each {"type": "function", "function": {...}}. Where `text_tools` is
/// not null, {"type": "custom", "custom": {...}} is read, too, and its name added to that set. All
/// other types are left out by name.
std::vector<engine::tool_definition> parse_function_tools(
    const json_cursor& root, const request_limits& limits, left_out_names& left_out,
    std::set<std::string>* text_tools = nullptr);

/// Reads `tool_choice` and `parallel_tool_calls`. Requires: the tools of the request are parsed.
void parse_tool_choice(const json_cursor& root, answer_request& request);

/// Reads one part of a content. Returns: its text; nothing for an unknown type.
using part_reader = std::function<std::optional<std::string>(const json_cursor& part)>;

/// Reads a content: a string, or a list of at most `parts_max` parts, each by `parse_part`. Parts
/// of unknown types are left out by name. Complains where the newest message has nothing else.
std::vector<std::string> parse_texts(const json_cursor& content, std::size_t parts_max,
                                     const history_position& position,
                                     const part_reader& parse_part);
/// Returns: the texts with a line break between them.
std::string joined(const std::vector<std::string>& texts);

}  // namespace semantic::protocol::openai

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

/// How much to reason. `none` switches reasoning off where the model can; the finer steps of other
/// models become the nearest of the three that there are.
engine::thinking_params parse_effort(const json_cursor& field);

/// The body's `tools`, each {"type": "function", "function": {...}}. Those of other types are left
/// out; but where `text_tools` is no null, {"type": "custom", "custom": {...}} is taken, too, and
/// its name added there.
std::vector<engine::tool_definition> parse_function_tools(
    const json_cursor& root, const request_limits& limits, left_out_names& left_out,
    std::set<std::string>* text_tools = nullptr);

/// `tool_choice` and `parallel_tool_calls`. Requires: the request has its tools.
void parse_tool_choice(const json_cursor& root, answer_request& request);

/// Reads one part of a content; Returns: nothing for one of a type that is not known.
using part_reader = std::function<std::optional<std::string>(const json_cursor& part)>;

/// A content: a string, or a list of at most `parts_max` parts. Parts of unknown types are left
/// out; complains where they are all that the newest message has.
std::vector<std::string> parse_texts(const json_cursor& content, std::size_t parts_max,
                                     const history_position& position,
                                     const part_reader& parse_part);
/// With a line break between them.
std::string joined(const std::vector<std::string>& texts);

}  // namespace semantic::protocol::openai

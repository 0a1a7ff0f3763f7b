#pragma once
// Fields that both of the vendor's APIs, and others that follow them, write alike. Pure. What
// parses complains of what it reads, as json_cursor does.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::openai {

/// How much to reason. `none` switches reasoning off where the model can; the finer steps of other
/// models become the nearest of the three that there are.
engine::thinking_params parse_effort(const json_cursor& field);

/// A call's arguments: a JSON object as text. Returns: compact JSON; "{}" for an empty text, which
/// some clients send for a call without arguments.
std::string parse_arguments(const json_cursor& field, const json_limits& limits);

/// The body's `tools`, each {"type": "function", "function": {...}}.
std::vector<engine::tool_definition> parse_function_tools(const json_cursor& root,
                                                          const request_limits& limits);

/// `tool_choice` and `parallel_tool_calls`. Requires: the request has its tools.
void parse_tool_choice(const json_cursor& root, answer_request& request);

/// A content: a string, or a list of at most `parts_max` parts, each of which `parse_part` reads.
std::vector<std::string> parse_texts(
    const json_cursor& content, std::size_t parts_max,
    const std::function<std::string(const json_cursor& part)>& parse_part);
/// With a line break between them.
std::string joined(const std::vector<std::string>& texts);

}  // namespace semantic::protocol::openai

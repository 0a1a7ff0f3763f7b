#pragma once
// Fields that both of the vendor's APIs write alike. Pure. What parses complains of what it reads,
// as json_cursor does.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::openai {

/// How much to reason. `none` switches reasoning off where the model can; the finer steps of other
/// models become the nearest of the three that there are.
engine::thinking_params parse_effort(const json_cursor& field);

/// A call's arguments: a JSON object as text. Returns: compact JSON; "{}" for an empty text, which
/// some clients send for a call without arguments.
std::string parse_arguments(const json_cursor& field, const json_limits& limits);

/// A content: a string, or a list of at most `parts_max` parts, each of which `parse_part` reads.
std::vector<std::string> parse_texts(
    const json_cursor& content, std::size_t parts_max,
    const std::function<std::string(const json_cursor& part)>& parse_part);
/// With a line break between them.
std::string joined(const std::vector<std::string>& texts);

}  // namespace semantic::protocol::openai

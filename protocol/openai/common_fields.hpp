#pragma once
// Fields that both of the vendor's APIs write alike. Pure. Both complain of what they read, as
// json_cursor does.

#include <string>

#include "engine/types/generation.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::openai {

/// How much to reason. `none` switches reasoning off where the model can; the finer steps of other
/// models become the nearest of the three that there are.
engine::thinking_params parse_effort(const json_cursor& field);

/// A call's arguments: a JSON object as text. Returns: compact JSON; "{}" for an empty text, which
/// some clients send for a call without arguments.
std::string parse_arguments(const json_cursor& field, const json_limits& limits);

}  // namespace semantic::protocol::openai

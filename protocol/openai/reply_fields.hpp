// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the vendor's replies to chats and to plain completions have in common. Pure.

#include <boost/json/object.hpp>

#include "engine/types/generation.hpp"

namespace semantic::protocol::openai {

/// Returns: `usage`: tokens of the prompt, how many of them were in memory, and tokens of the
/// answer, also how many of them came by drafts, where some did.
boost::json::object usage_object(const engine::prompt_usage& usage, const engine::finished& end,
                                 int thinking_tokens);
/// Returns: the wire's word for why an answer ended; "tool_calls" only for a turn that the model
/// ended itself, since a client runs the calls then.
const char* finish_reason(engine::stop_reason why, bool has_tool_calls);

}  // namespace semantic::protocol::openai

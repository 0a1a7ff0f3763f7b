#pragma once
// The parts of a chat completions body that become the prompt: messages and tools. Pure.

#include "engine/types/conversation.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::openai {

/// `root` is the whole body. Complains with missing_field, bad_value, unsupported.
///
/// - `developer` is another word for `system`, `function` an older one for `tool`.
/// - A system message that opens the conversation becomes its system text, as the other dialect
///   gives it, so that both find the same memory; later ones stay where they are.
/// - Text parts of a system or tool message are joined by a line break.
/// - Arguments of tool calls are rewritten as compact JSON: only their meaning is the client's.
engine::conversation parse_conversation(const json_cursor& root, const chat_limits& limits);

}  // namespace semantic::protocol::openai

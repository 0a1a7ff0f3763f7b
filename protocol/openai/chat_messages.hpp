// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of a chat completions body that become the prompt: messages and tools. Pure.

#include <set>
#include <string>

#include "engine/types/conversation.hpp"
#include "protocol/history/parts.hpp"
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
///   What is no object, since a model cut it off or misspelled it, stays as it is.
/// - Tools of type `custom` are functions to the model; `text_tools` gets their names.
/// - Pictures and the like become a line of text, except in the newest message, where they are
/// refused;
///   tools, calls and parts of other types are left out. The newest message is the last one; of
///   results, all at the end.
engine::conversation parse_conversation(const json_cursor& root, const chat_limits& limits,
                                        left_out_names& left_out,
                                        std::set<std::string>& text_tools);

}  // namespace semantic::protocol::openai

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes the definitions of tools that a client adds in the middle of a conversation ("placed" or
// late tools) into its messages. Added at the head of the prompt they would void the agent's
// memory. Pure.

#include <string>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// Returns: the text by which the template defines a tool within its list of tools; the tool as
/// JSON if the template has no such text. `opens`: no tool is defined before it, so the text also
/// explains how tools are called, if the template has that in one piece. Errors: bad_value for a
/// tool whose parameters are no JSON object.
storage::result<std::string> definition_text(const tool_definition& tool, bool opens,
                                             const chat_template& family);

/// Writes the texts of chat.placed_tools into the messages, and empties the list. Each takes one or
/// two renderings, for which `budget` is charged. Errors: as definition_text(). Throws
/// work_limit_exceeded.
storage::result<void> write_placed_tools(conversation& chat, const chat_template& family,
                                         storage::work_budget& budget);

/// Whether the conversation has at most 16 placed tools, of at most 16 KiB together: their texts
/// are made in a few milliseconds, so no other thread is needed.
bool has_few_placed_tools(const conversation& chat);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Definitions of tools in the middle of a conversation: a tool that comes late leaves the head of
// the prompt, and so the agent's memory, as it is. Pure.

#include <string>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// The text by which the template defines one more tool at the head of a prompt that has tools,
/// without the text around the list. `opens`: no tool is defined before it, so that the text also
/// says how tools are called, where the template has such a text in one piece. Where the template
/// does not define tools in this way, returns the tool as JSON. Errors: bad_value for a tool whose
/// parameters are no JSON object.
storage::result<std::string> definition_text(const tool_definition& tool, bool opens,
                                             const chat_template& family);

/// Writes the texts of chat.placed_tools at their places, and empties the list. Each takes a
/// rendering or two: `budget` is charged for it. Errors: likewise. Throws work_limit_exceeded.
storage::result<void> write_placed_tools(conversation& chat, const chat_template& family,
                                         storage::work_budget& budget);

/// Whether there are so few placed tools, and so short ones, that their texts are made in a few
/// milliseconds.
bool has_few_placed_tools(const conversation& chat);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations as evaluation files spell them: OpenAI-like messages, `content` a string or a list
// of text parts.

#include <boost/json/value.hpp>

#include <string>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::eval {

/// {"messages": [...], "system": "...", "tools": [...]}. A first message of role system is the
/// system text unless `system` is given. An assistant's reasoning is in `reasoning_content`,
/// `reasoning` or `thinking`. Throws bad_input naming `source` and the field.
engine::conversation parse_conversation(const boost::json::value& root, const std::string& source);

/// {"date": "yyyy-mm-dd", "enable_thinking": true, "keep_thinking": false, "reasoning_effort":
/// "low"}, each of which may be missing. Throws bad_input naming `source` and the field.
engine::render_options parse_render_options(const boost::json::value& root,
                                            const std::string& source);

}  // namespace semantic::eval

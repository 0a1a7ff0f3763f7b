#pragma once
// Conversations as evaluation files spell them: OpenAI-like messages, `content` a string or a list
// of text parts.

#include <boost/json/value.hpp>

#include <string>

#include "engine/types/conversation.hpp"

namespace semantic::eval {

/// {"messages": [...], "system": "...", "tools": [...]}. A first message of role system is the
/// system text unless `system` is given. Throws bad_input naming `source` and the field.
engine::conversation parse_conversation(const boost::json::value& root, const std::string& source);

}  // namespace semantic::eval

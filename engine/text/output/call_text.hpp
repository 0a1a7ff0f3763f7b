// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes earlier calls as text, for templates that cannot render calls. Pure.

#include <span>
#include <string>

#include "engine/text/output/answer_format.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// The calls of one message as models of the format write them, so that its parser reads them back.
/// For formats whose templates can all render calls: as Hermes writes them. `calls`: at least one.
std::string text_of_calls(call_format format, std::span<const tool_call_part> calls);

}  // namespace semantic::engine

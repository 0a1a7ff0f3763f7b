// SPDX-License-Identifier: Apache-2.0
#pragma once
// Earlier calls as text, for templates that have no place for calls. Pure.

#include <span>
#include <string>

#include "engine/text/output/answer_format.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// The calls of one message, as models of the form write them, so that the parser of the form
/// reads them back. Of forms whose templates all have a place for calls: as Hermes has them.
/// `calls`: at least one.
std::string text_of_calls(call_format format, std::span<const tool_call_part> calls);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of a Messages body that become the prompt: system, messages and tools. Pure.

#include <string>
#include <vector>

#include "engine/types/conversation.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::anthropic {

/// `root` is the whole body. Complains with missing_field, bad_value, unsupported.
///
/// - Tool results leave their user message and become messages of role `tool`, in place and in
/// order.
/// - System blocks are joined by a line break; a system message among the others stays where it is.
/// - The billing line at the head of a system text or block is left out (without_billing_line).
/// - Pictures and PDFs become a line of text, except in the newest message, where they are refused
/// in the
///   words that clients know. Blocks of tools that the vendor's servers ran become a line
///   each; tools and blocks of other types are left out.
/// - A deferred tool is written where a block names it, a tool that a message defines where it
/// does: the
///   head of the prompt never changes for it. The definitions are chat.placed_tools.
/// - A text that is cleared at the user's next message comes last, and is gone after that.
/// - A compaction block replaces all before it.
/// `of_thread`: the tools of the thread that the messages continue, in place of the body's.
engine::conversation parse_conversation(const json_cursor& root, const messages_limits& limits,
                                        left_out_names& left_out,
                                        std::optional<engine::tool_lists> of_thread = {});

}  // namespace semantic::protocol::anthropic

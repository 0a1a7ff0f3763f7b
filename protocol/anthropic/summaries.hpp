// SPDX-License-Identifier: Apache-2.0
#pragma once
// `compaction` of Messages: the answer is a summary of the conversation, which later requests send
// in its place. Pure. Source: the vendor's SDKs.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <string>
#include <string_view>

#include "protocol/anthropic/messages.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::anthropic {

/// Reads the field `compaction`, which makes the answer a summary of the conversation.
void parse_compaction(const json_cursor& root, messages_request& request);

/// Returns: the blocks tool_addition and tool_removal that lead from the body's `tools` to those
/// that may be called at the end of the conversation.
boost::json::array tool_changes_of(const json_cursor& root, const engine::conversation& chat);

/// {"type": "compaction", "content", "tool_changes"}; content is null where there is no summary.
boost::json::object compaction_block(std::string_view summary, boost::json::array tool_changes);

/// Returns: the body of a request that continues the conversation after its summary. `rest`:
/// messages_request::rest_of_body; `block`: from compaction_block().
std::string body_behind_summary(std::string_view rest, boost::json::object block);

}  // namespace semantic::protocol::anthropic

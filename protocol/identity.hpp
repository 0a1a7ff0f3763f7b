// SPDX-License-Identifier: Apache-2.0
#pragma once
// The agent whose memory a request extends, as far as its headers say. Pure.

#include <optional>
#include <string>

#include "protocol/wire/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::protocol {

/// Header values as received; absent ones are empty optionals.
struct identity_headers {
    std::optional<std::string> x_session_id;
    std::optional<std::string> x_claude_code_session_id;
    std::optional<std::string> x_claude_code_agent_id;
    std::optional<std::string> x_claude_code_parent_agent_id{};
    std::optional<std::string> x_parent_session_id{};
    std::optional<std::string> thread_id{};
    std::optional<std::string> session_id{};
};

/// First that is present: X-Session-ID → `sess_{id}`; x-claude-code-session-id → `cc_{session}`,
/// with x-claude-code-agent-id → `cc_{session}:{agent}`; thread-id, or else session-id, as Codex
/// sends them → `codex_{id}`, unless it cannot be a name: a header that this API does not
/// document never fails a request. Nothing: the engine decides by content.
/// Errors: bad_value naming the header, when its value is empty, has a character outside
/// [A-Za-z0-9._:-] (for the Claude Code headers also ':', which separates the two), or is too long
/// for an agent id.
result<std::optional<storage::agent_id>> agent_of(const identity_headers& headers);

/// Whether this is not a turn of the agent that its headers name. Claude Code asks for titles and
/// summaries in the name of its main agent; such questions, unlike that agent's turns, come without
/// tools. They have a memory of their own, found by content, or each would take the place of the
/// main agent's.
bool is_side_request(const identity_headers& headers, bool has_tools);

/// The agent whose memory a sub-agent (x-claude-code-agent-id) starts from:
/// x-claude-code-parent-agent-id → `cc_{session}:{parent}`, without it the session's main agent; of
/// an X-Session-ID, as opencode sends it: x-parent-session-id → `sess_{parent}`. Nothing where
/// neither is there. Errors: as agent_of.
result<std::optional<storage::agent_id>> parent_of(const identity_headers& headers);

}  // namespace semantic::protocol

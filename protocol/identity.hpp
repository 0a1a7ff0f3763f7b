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

/// Returns: the agent that the first of these headers names: X-Session-ID → `sess_{id}`;
/// x-claude-code-session-id → `cc_{session}`, together with x-claude-code-agent-id →
/// `cc_{session}:{agent}`; thread-id, or else session-id, as Codex sends them → `codex_{id}`. The
/// last two are ignored where they are no valid name, since a header that this API does not
/// document must not fail a request. Returns nothing where there is no such header: then the engine
/// finds the conversation by its content. Errors: bad_value naming the header, when its value is
/// empty, has a character outside [A-Za-z0-9._:-] (for the Claude Code headers also ':', which
/// separates the two), or is too long for an agent id.
result<std::optional<storage::agent_id>> agent_of(const identity_headers& headers);

/// Whether a request is a side question and not a turn of the agent that its headers name. Claude
/// Code asks for titles and summaries under the name of its main agent, but without tools, which
/// the agent's own turns have. Such a request gets a memory of its own, found by content; else each
/// would replace the main agent's memory.
bool is_side_request(const identity_headers& headers, bool has_tools);

/// Returns: the agent whose memory a sub-agent starts from. For Claude Code
/// (x-claude-code-agent-id): x-claude-code-parent-agent-id → `cc_{session}:{parent}`, or without it
/// the session's main agent. For opencode (X-Session-ID): x-parent-session-id → `sess_{parent}`.
/// Nothing where the request is no sub-agent's. Errors: as agent_of().
result<std::optional<storage::agent_id>> parent_of(const identity_headers& headers);

}  // namespace semantic::protocol

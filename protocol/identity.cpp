// SPDX-License-Identifier: Apache-2.0
#include "protocol/identity.hpp"

namespace semantic::protocol {

namespace {

failure bad_header(const char* header, const std::string& sentence) {
    return {errc::bad_value, std::string("header ") + header + ": " + sentence, header};
}

/// Checks a header's value character by character. `may_have_colon`: whether ':' is allowed.
/// Errors: bad_value, naming the header.
result<void> check(const char* header, const std::string& value, bool may_have_colon) {
    if (value.empty()) return bad_header(header, "must not be empty");
    for (char c : value) {
        bool is_allowed = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' ||
                          (c == ':' && may_have_colon);
        if (!is_allowed)
            return bad_header(header, may_have_colon
                                          ? "may contain only letters, digits and . _ : - (ASCII)"
                                          : "may contain only letters, digits and . _ - (ASCII)");
    }
    return {};
}

/// Returns: the agent with this id. Errors: bad_value where it is too long. Requires: every
/// character of `id` is allowed.
result<std::optional<storage::agent_id>> named(const char* header, const std::string& id) {
    auto parsed = storage::agent_id::parse(id);
    if (parsed) return std::optional(*parsed);
    return bad_header(header, "too long: " + parsed.error().what);
}

/// Returns: the agent of a conversation that Codex names (`codex_{id}`); nothing where no header
/// has a valid name.
std::optional<storage::agent_id> thread_of(const identity_headers& headers) {
    for (const auto& value : {headers.thread_id, headers.session_id}) {
        // Other clients may use these names for something else, so an odd value is no error.
        if (!value || !check("thread-id", *value, false)) continue;
        if (auto parsed = storage::agent_id::parse("codex_" + *value)) return *parsed;
    }
    return std::nullopt;
}

}  // namespace

result<std::optional<storage::agent_id>> agent_of(const identity_headers& headers) {
    if (headers.x_session_id) {
        if (auto ok = check("X-Session-ID", *headers.x_session_id, true); !ok) return ok.error();
        return named("X-Session-ID", "sess_" + *headers.x_session_id);
    }
    if (!headers.x_claude_code_session_id) return thread_of(headers);
    constexpr const char* session_header = "x-claude-code-session-id";
    constexpr const char* agent_header = "x-claude-code-agent-id";
    std::string id = "cc_" + *headers.x_claude_code_session_id;
    if (auto ok = check(session_header, *headers.x_claude_code_session_id, false); !ok)
        return ok.error();
    if (!headers.x_claude_code_agent_id) return named(session_header, id);
    if (auto ok = check(agent_header, *headers.x_claude_code_agent_id, false); !ok)
        return ok.error();
    id.append(":").append(*headers.x_claude_code_agent_id);
    return named(agent_header, id);
}

bool is_side_request(const identity_headers& headers, bool has_tools) {
    return !has_tools && !headers.x_session_id && headers.x_claude_code_session_id &&
           !headers.x_claude_code_agent_id;
}

result<std::optional<storage::agent_id>> parent_of(const identity_headers& headers) {
    if (headers.x_session_id) {
        if (!headers.x_parent_session_id) return std::optional<storage::agent_id>();
        if (auto ok = check("x-parent-session-id", *headers.x_parent_session_id, true); !ok)
            return ok.error();
        return named("x-parent-session-id", "sess_" + *headers.x_parent_session_id);
    }
    if (!headers.x_claude_code_session_id || !headers.x_claude_code_agent_id)
        return std::optional<storage::agent_id>();
    constexpr const char* parent_header = "x-claude-code-parent-agent-id";
    std::string id = "cc_" + *headers.x_claude_code_session_id;
    // No parent named: the session's main agent has made this one.
    if (!headers.x_claude_code_parent_agent_id) return named(parent_header, id);
    if (auto ok = check(parent_header, *headers.x_claude_code_parent_agent_id, false); !ok)
        return ok.error();
    id.append(":").append(*headers.x_claude_code_parent_agent_id);
    return named(parent_header, id);
}

}  // namespace semantic::protocol

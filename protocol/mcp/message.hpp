// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Model Context Protocol over HTTP: one message of a client, and what answers it. Both kinds of
// clients are understood: those of 2026-07-28, whose every request says its version in `_meta`, and
// earlier ones, which begin with `initialize`. Neither has a session: nothing is remembered between
// two messages. Pure. Source: the protocol's specification and SDKs (protocol/README.md).

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "protocol/wire/json.hpp"

namespace semantic::protocol::mcp {

inline constexpr std::string_view newest_version = "2026-07-28";

/// Headers of the HTTP request with a message; absent: not sent.
struct message_headers {
    std::optional<std::string> version{};  // mcp-protocol-version
    std::optional<std::string> method{};   // mcp-method
    std::optional<std::string> name{};     // mcp-name
};

struct message {
    boost::json::value id;  // a string or a number; null: a notification, which nobody answers
    std::string method;
    boost::json::object params;
    bool is_stateless = false;  // as of 2026-07-28
};

/// A JSON-RPC reply with its status of HTTP.
struct answer {
    int status = 200;
    std::string body;
};

/// Parses and checks a message. Returns: the message, or the answer that refuses it: it is no JSON,
/// no message, of an unknown version, or headers are missing or contradict it.
std::variant<message, answer> parse_message(std::string_view body, const message_headers& headers,
                                            const json_limits& limits);

/// Codes of JSON-RPC and of the protocol.
enum class fault {
    parse_error = -32700,
    invalid_request = -32600,
    method_not_found = -32601,
    invalid_params = -32602,
    header_mismatch = -32020,
    unsupported_version = -32022
};
/// Returns: an error of JSON-RPC. `status`: of HTTP; `data`: more about the error, may be empty.
answer refuse(const boost::json::value& id, fault code, std::string_view sentence, int status,
              boost::json::object data = {});

/// Returns: the result of a request, with the members in `fields`; `resultType` is added where the
/// client's version has it.
answer reply(const message& to, boost::json::object fields);

/// Answers messages that need nothing of the server's agents: `initialize`, `ping`,
/// `server/discover`, `tools/list`, notifications and unknown methods. Returns: nothing for
/// tools/call. `server_version`: of this program.
std::optional<answer> answer_alone(const message& asked, std::string_view server_version);

/// Returns: the result of a tool call: a text. `is_error`: it is shown to the model as an error.
answer tool_reply(const message& to, std::string_view text, bool is_error);

}  // namespace semantic::protocol::mcp

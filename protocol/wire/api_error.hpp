// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one map from what went wrong to what the client sees: HTTP status, vendor's error type, body,
// retry headers. Pure. Source: the vendors' error tables as their SDKs parse them
// (protocol/README.md).

#include <boost/json/object.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/errc.hpp"

namespace semantic::protocol {

enum class dialect { anthropic, openai, native, ollama };

struct error_reply {
    int status = 500;
    std::string body;                                 // JSON, no trailing newline
    std::optional<std::chrono::seconds> retry_after;  // header `retry-after`, when set
    std::optional<bool> should_retry;                 // header `x-should-retry`, when set
};

/// Returns: the HTTP status for `code`.
int http_status(dialect d, errc code) noexcept;
/// Returns: the vendor's type of error for `code`: "invalid_request_error", "overloaded_error", ...
const char* error_type(dialect d, errc code) noexcept;

/// Returns: OpenAI's error object: message, type, param and code.
boost::json::object openai_error(const failure& f);
/// Returns: the JSON body of an error. `request_id`: for the Anthropic dialect; empty leaves the
/// field out.
std::string error_body(dialect d, const failure& f, std::string_view request_id);
/// Returns: the whole reply. `wait`: `retry-after` of a failure that waiting cures and that does
/// not say how long.
error_reply make_error_reply(dialect d, const failure& f, std::string_view request_id,
                             std::chrono::seconds wait = std::chrono::seconds(1));
/// Returns: an error after the 200 of an event stream, as SSE bytes: `event: error` for Anthropic
/// and native, an event with data only for OpenAI. Ollama streams lines, not events: use
/// error_body().
std::string error_event(dialect d, const failure& f, std::string_view request_id);

}  // namespace semantic::protocol

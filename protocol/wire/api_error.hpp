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

int http_status(dialect d, errc code) noexcept;
/// The vendor's word for `code`: "invalid_request_error", "overloaded_error", ...
const char* error_type(dialect d, errc code) noexcept;

/// OpenAI's error: message, type, param and code.
boost::json::object openai_error(const failure& f);
/// The JSON body alone. `request_id` goes into the Anthropic shape; empty leaves the field out.
std::string error_body(dialect d, const failure& f, std::string_view request_id);
/// `wait`: what `retry-after` says when the failure is one that waiting cures and does not say how
/// long.
error_reply make_error_reply(dialect d, const failure& f, std::string_view request_id,
                             std::chrono::seconds wait = std::chrono::seconds(1));
/// An error after the 200 of an event stream, as SSE bytes: `event: error` for Anthropic and
/// native, a data-only event for OpenAI. Ollama's streams have lines, not events: error_body().
std::string error_event(dialect d, const failure& f, std::string_view request_id);

}  // namespace semantic::protocol

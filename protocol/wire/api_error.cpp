// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/api_error.hpp"

#include <boost/json.hpp>

#include "protocol/wire/json.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol {

namespace {

/// Whether the same request may succeed after a while, so that the client is asked to repeat it.
bool is_cured_by_waiting(errc code) {
    switch (code) {
        case errc::rate_limited:
        case errc::overloaded:
        case errc::cancelled:
        case errc::shutting_down:
            return true;
        case errc::malformed_json:
        case errc::missing_field:
        case errc::bad_value:
        case errc::unsupported:
        case errc::prompt_too_long:
        case errc::body_too_large:
        case errc::unauthorized:
        case errc::forbidden:
        case errc::not_found:
        case errc::method_not_allowed:
        case errc::request_timeout:
        case errc::conflict:
        case errc::timeout:
        case errc::out_of_space:
        case errc::internal:
            return false;
    }
    return false;
}

const char* anthropic_type(errc code) {
    switch (code) {
        case errc::malformed_json:
        case errc::missing_field:
        case errc::bad_value:
        case errc::unsupported:
        case errc::prompt_too_long:
        case errc::method_not_allowed:
            return "invalid_request_error";
        case errc::body_too_large:
            return "request_too_large";
        case errc::unauthorized:
            return "authentication_error";
        case errc::forbidden:
            return "permission_error";
        case errc::not_found:
            return "not_found_error";
        case errc::request_timeout:
        case errc::timeout:
            return "timeout_error";
        case errc::conflict:
            return "conflict_error";
        case errc::rate_limited:
            return "rate_limit_error";
        case errc::overloaded:
        case errc::shutting_down:
        case errc::cancelled:  // the type that clients come back for
            return "overloaded_error";
        case errc::out_of_space:
        case errc::internal:
            return "api_error";
    }
    return "api_error";
}

/// OpenAI's type: the client's fault, a rate limit or the server's fault; it has few others.
const char* openai_type(errc code) {
    switch (code) {
        case errc::malformed_json:
        case errc::missing_field:
        case errc::bad_value:
        case errc::unsupported:
        case errc::prompt_too_long:
        case errc::body_too_large:
        case errc::unauthorized:
        case errc::forbidden:
        case errc::not_found:
        case errc::method_not_allowed:
        case errc::request_timeout:
        case errc::conflict:
            return "invalid_request_error";
        case errc::rate_limited:
            return "rate_limit_error";
        case errc::overloaded:
        case errc::shutting_down:
        case errc::cancelled:
        case errc::timeout:
        case errc::out_of_space:
        case errc::internal:
            return "server_error";
    }
    return "server_error";
}

/// OpenAI's machine-readable code, or null where the vendor has none.
boost::json::value openai_code(const failure& f) {
    if (!f.error_code.empty()) return boost::json::string(f.error_code);
    switch (f.code) {
        case errc::prompt_too_long:
            return "context_length_exceeded";
        case errc::unauthorized:
            return "invalid_api_key";
        case errc::rate_limited:
            return "rate_limit_exceeded";
        case errc::overloaded:
        case errc::cancelled:
            return "overloaded";
        case errc::shutting_down:
            return "shutting_down";
        case errc::unsupported:
            return "unsupported_value";
        case errc::malformed_json:
        case errc::missing_field:
        case errc::bad_value:
        case errc::body_too_large:
        case errc::forbidden:
        case errc::not_found:
        case errc::method_not_allowed:
        case errc::request_timeout:
        case errc::conflict:
        case errc::timeout:
        case errc::out_of_space:
        case errc::internal:
            return nullptr;
    }
    return nullptr;
}

/// Returns: the message in the dialect's words. Clients recognise a prompt that is too long by the
/// vendor's sentence and read the numbers in it, to shorten the conversation and go on.
std::string message_of(dialect d, const failure& f) {
    if (!f.excess || d == dialect::native) return f.message;
    const std::string tokens = std::to_string(f.excess->tokens);
    const int context = f.excess->context_tokens;
    std::string message;
    if (d == dialect::ollama)
        message = "prompt too long; exceeded max context length by " +
                  std::to_string(std::max<std::int64_t>(f.excess->tokens - (context - 1), 1)) +
                  " tokens";
    else if (d == dialect::openai)
        message = "This model's maximum context length is " + std::to_string(context) +
                  " tokens. However, your messages resulted in " + tokens + " tokens.";
    else  // the answer takes one token at least
        message = "prompt is too long: " + tokens + " tokens > " + std::to_string(context - 1) +
                  " maximum";
    if (f.excess->is_lower_bound)
        message += " (the prompt has at least so many tokens, by its size)";
    return message;
}

boost::json::object anthropic_error(dialect d, const failure& f) {
    boost::json::object error{{"type", anthropic_type(f.code)}, {"message", message_of(d, f)}};
    if (!f.error_code.empty()) error["details"] = boost::json::object{{"error_code", f.error_code}};
    return error;
}

}  // namespace

int http_status(dialect d, errc code) noexcept {
    switch (code) {
        case errc::malformed_json:
        case errc::missing_field:
        case errc::bad_value:
        case errc::unsupported:
        case errc::prompt_too_long:
            return 400;
        case errc::unauthorized:
            return 401;
        case errc::forbidden:
            return 403;
        case errc::not_found:
            return 404;
        case errc::method_not_allowed:
            return 405;
        case errc::request_timeout:
            return 408;
        case errc::conflict:
            return 409;
        case errc::body_too_large:
            return 413;
        case errc::rate_limited:
            return 429;
        case errc::internal:
            return 500;
        case errc::cancelled:
        case errc::shutting_down:
            return 503;
        case errc::timeout:
            return 504;
        case errc::out_of_space:
            return 507;
        // 529 is Anthropic's own; no other client knows it.
        case errc::overloaded:
            return d == dialect::anthropic ? 529 : 503;
    }
    return 500;
}

const char* error_type(dialect d, errc code) noexcept {
    return d == dialect::openai ? openai_type(code) : anthropic_type(code);
}

boost::json::object openai_error(const failure& f) {
    return {{"message", message_of(dialect::openai, f)},
            {"type", openai_type(f.code)},
            {"param", f.path.empty() ? boost::json::value() : boost::json::value(f.path)},
            {"code", openai_code(f)}};
}

std::string error_body(dialect d, const failure& f, std::string_view request_id) {
    boost::json::object body;
    switch (d) {
        case dialect::anthropic:
            body["type"] = "error";
            body["error"] = anthropic_error(d, f);
            if (!request_id.empty()) body["request_id"] = request_id;
            break;
        case dialect::openai:
            body["error"] = openai_error(f);
            break;
        case dialect::native:
            body["error"] = anthropic_error(d, f);
            break;
        case dialect::ollama:
            body["error"] = message_of(d, f);
            break;
    }
    return to_text(body);
}

error_reply make_error_reply(dialect d, const failure& f, std::string_view request_id,
                             std::chrono::seconds wait) {
    error_reply reply{http_status(d, f.code), error_body(d, f, request_id), {}, {}};
    if (is_cured_by_waiting(f.code)) {
        reply.retry_after = f.retry_after.value_or(wait);
        reply.should_retry = true;
    }
    return reply;
}

std::string error_event(dialect d, const failure& f, std::string_view request_id) {
    // OpenAI's SDK reads every event's data and ignores names; Anthropic's drops events without a
    // name.
    return sse_event(d == dialect::openai ? "" : "error", error_body(d, f, request_id));
}

}  // namespace semantic::protocol

// SPDX-License-Identifier: Apache-2.0
#include "server/http/response.hpp"

#include <algorithm>

#include "protocol/wire/public_text.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace {

constexpr int no_content = 204;  // a reply that has no body, and may not speak of one

// Line breaks are left out, so that a value can never begin another field.
void append_field(std::string& head, std::string_view name, std::string_view value) {
    head.append(name).append(": ");
    for (char c : value)
        if (c != '\r' && c != '\n') head += c;
    head.append("\r\n");
}

bool has_field(const response& reply, std::string_view name) {
    return std::any_of(reply.fields.begin(), reply.fields.end(),
                       [&](const auto& field) { return field.first == name; });
}

}  // namespace

response json_response(std::string body) {
    response reply;
    reply.body = std::move(body);
    return reply;
}

response empty_response() {
    response empty;
    empty.status = 204;
    return empty;
}

response text_response(std::string body, std::string content_type) {
    response reply;
    reply.body = std::move(body);
    reply.content_type = std::move(content_type);
    return reply;
}

response error_response(const request& to, const protocol::failure& failure) {
    protocol::error_reply error = protocol::make_error_reply(to.dialect, failure, to.id);
    response reply = json_response(std::move(error.body));
    reply.status = error.status;
    if (error.retry_after)
        reply.fields.emplace_back("retry-after", std::to_string(error.retry_after->count()));
    if (error.should_retry)
        reply.fields.emplace_back("x-should-retry", *error.should_retry ? "true" : "false");
    // Another server is at work on the agent: the client is sent there.
    if (!failure.elsewhere.empty()) {
        reply.status = 307;
        reply.fields.emplace_back("location", failure.elsewhere + to.target);
    }
    return reply;
}

protocol::failure public_fault(const request& to, const storage::failure& fault) {
    if (!protocol::is_public(fault))
        log_event(log_level::warning, to.id_for_log(),
                  std::string(storage::to_string(fault.code)) + ": " + fault.what);
    return protocol::from_storage(fault);
}

response error_response(const request& to, const protocol::failure& failure, int status) {
    response reply = error_response(to, failure);
    reply.status = status;
    return reply;
}

std::string response_head(const request& to, const response& reply, std::string_view framing,
                          bool keep_alive) {
    std::string head = to.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
    head.append(std::to_string(reply.status))
        .append(" ")
        .append(reason_phrase(reply.status))
        .append("\r\n");
    append_field(head, "server", "semantic-server");
    if (reply.status != no_content) append_field(head, "content-type", reply.content_type);
    // For browsers: the reply has only this type, is shown in no frame, and runs nothing unless it
    // has a policy of its own.
    append_field(head, "x-content-type-options", "nosniff");
    append_field(head, "x-frame-options", "DENY");
    append_field(head, "referrer-policy", "no-referrer");
    if (!has_field(reply, "content-security-policy"))
        append_field(head, "content-security-policy", "default-src 'none'; frame-ancestors 'none'");
    // The same id under two names, since clients differ in which one they read.
    append_field(head, "request-id", to.id);
    append_field(head, "x-request-id", to.id);
    if (!to.allow_origin.empty()) {
        append_field(head, "access-control-allow-origin", to.allow_origin);
        append_field(head, "access-control-expose-headers", "*");
        if (to.allow_origin != "*") append_field(head, "vary", "origin");
    }
    for (const auto& [name, value] : to.limit_fields) append_field(head, name, value);
    for (const auto& [name, value] : reply.fields) append_field(head, name, value);
    if (!framing.empty()) head.append(framing).append("\r\n");
    if (!keep_alive) append_field(head, "connection", "close");
    if (keep_alive && to.http_1_0) append_field(head, "connection", "keep-alive");
    return head.append("\r\n");
}

std::string response_bytes(const request& to, const response& reply, bool keep_alive) {
    std::string framing;
    if (reply.status != no_content)
        framing = "content-length: " + std::to_string(reply.body.size());
    std::string bytes = response_head(to, reply, framing, keep_alive);
    if (to.method != "HEAD") bytes += reply.body;
    return bytes;
}

std::string_view reason_phrase(int status) noexcept {
    switch (status) {
        case 200:
            return "OK";
        case 204:
            return "No Content";
        case 303:
            return "See Other";
        case 307:
            return "Temporary Redirect";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 409:
            return "Conflict";
        case 413:
            return "Content Too Large";
        case 415:
            return "Unsupported Media Type";
        case 417:
            return "Expectation Failed";
        case 421:
            return "Misdirected Request";
        case 422:
            return "Unprocessable Content";
        case 426:
            return "Upgrade Required";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 503:
            return "Service Unavailable";
        case 504:
            return "Gateway Timeout";
        case 507:
            return "Insufficient Storage";
        case 529:
            return "Overloaded";
        default:
            return "Status";
    }
}

}  // namespace semantic::server

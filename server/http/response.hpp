// SPDX-License-Identifier: Apache-2.0
#pragma once
// One HTTP reply that is sent in one piece, and its bytes.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/wire/api_error.hpp"
#include "server/http/request.hpp"

namespace semantic::server {

struct response {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> fields;  // beyond those that every reply has
    /// The share of the reply budget that a long body holds; released when it is sent.
    std::shared_ptr<const void> share{};
};

response json_response(std::string body);
/// 204: done, and there is nothing to say of it.
response empty_response();
response text_response(std::string body, std::string content_type);
/// The reply for a failure, in the dialect of the request `to`, with the headers that say when to
/// retry. A failure that names another server (`elsewhere`) becomes a redirect.
response error_response(const request& to, const protocol::failure& failure);
/// The error that a client gets for a fault of the store. A fault whose text may name files is
/// logged and becomes a general one.
protocol::failure public_fault(const request& to, const storage::failure& fault);
/// As above with another status, for faults of HTTP itself.
response error_response(const request& to, const protocol::failure& failure, int status);

/// Status line and fields up to and with the empty line. Every reply carries the request id under
/// both vendors' names. `framing`: "content-length: 12" or "transfer-encoding: chunked", or empty
/// when the end of the connection ends the body.
std::string response_head(const request& to, const response& reply, std::string_view framing,
                          bool keep_alive);
/// The whole reply; without its body when the request was HEAD.
std::string response_bytes(const request& to, const response& reply, bool keep_alive);

/// The text after the status: "Not Found".
std::string_view reason_phrase(int status) noexcept;

}  // namespace semantic::server

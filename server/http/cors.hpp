// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which web pages may use this server, and the headers that browsers get for it. A browser sends
// every page's requests here, also those of pages that the user only came across: without a rule
// any of them could use the model and change what agents remember. Pure. Source:
// https://fetch.spec.whatwg.org/#http-cors-protocol

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/config/config.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"

namespace semantic::server {

/// `allowed`: origins ("https://a.example"), "loopback" for every port of this machine's own names,
/// "*" for all. Returns: the value of `access-control-allow-origin` for a page of `origin`, empty
/// when it is not allowed.
std::string allowed_origin(std::span<const std::string> allowed, std::string_view origin);

/// Returns: a refusal of a request that would change something, needs no key, and comes from a page
/// of an origin that is not allowed; else nothing. Requires: begin_request() was called.
std::optional<response> refuse_foreign_page(const config& settings, const request& incoming);

/// Returns: a refusal of a WebSocket, whether or not there are keys, unless `origin` is one of the
/// server's own pages or allowed by --cors-origins. Browsers let every page open a WebSocket
/// without asking first, and only `origin` says whose page it is. Requires: begin_request() was
/// called.
std::optional<response> refuse_foreign_socket(const config& settings, const request& incoming);

/// The reply to OPTIONS, by which browsers ask before a page sends a request that no form could
/// send. `methods`: those of the path, "GET, HEAD".
response options_response(const request& incoming, const std::string& methods);

}  // namespace semantic::server

#pragma once
// What happens to every request around its handler, in this order: request id, authentication,
// access log.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/router.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// Fills in id, dialect, allowed origin and the route's parameter. Requires: method, target and
/// fields are set.
route_match begin_request(const services& with, request& incoming);

/// What is answered before the body is read, if anything: OPTIONS, no such route, wrong method, a
/// page that may not, no key, server starting or stopping.
std::optional<response> refuse_early(const services& with, const request& incoming,
                                     const route_match& match);

/// Accepts `x-api-key: KEY` and `authorization: Bearer KEY`. Takes the same time for every wrong
/// key.
bool has_valid_key(const config& settings, const request& incoming);

/// Counts the request and writes its line to the log. `status` 499: the client left before there
/// was a reply.
void end_request(const services& with, const request& incoming, const route_match& match,
                 int status, std::chrono::steady_clock::duration took);

}  // namespace semantic::server

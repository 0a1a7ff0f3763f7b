// SPDX-License-Identifier: Apache-2.0
#pragma once
// The steps before and after every request's handler, in this order: request id, authentication,
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

/// Fills in id, dialect, allowed origin, credential and the route's parameter. Requires: method,
/// target and fields are set.
route_match begin_request(const services& server, request& incoming);

/// Returns: the reply to a request whose body need not be read: a foreign host name, OPTIONS, no
/// such route, a wrong method, a page that is not allowed, no key, the server starting or stopping.
/// Else nothing.
std::optional<response> refuse_early(const services& server, const request& incoming,
                                     const route_match& match);

/// Returns: a refusal while no engine answers, in the request's dialect; nothing when one does.
std::optional<response> refuse_without_engine(const services& server, const request& incoming);
/// Whether a request on this route waits for an engine where there is none now. Requires: a route
/// was found.
bool may_wait(const services& server, const route_match& match);
/// Leases an engine for the request, unless it has one. `model`: preferred, if it is loaded.
/// Returns: a refusal where there is none.
std::optional<response> take_engine(const services& server, request& incoming,
                                    std::optional<std::size_t> model = {});

/// On a route that makes the model work, counts the request for its key's limits and takes one of
/// the slots that a tenant may have at once. Returns: a refusal when the limit is reached, else
/// nothing.
std::optional<response> take_key_slot(const services& server, request& incoming,
                                      const route_match& match);

/// Returns: the credential of the tenant whose key was sent (`x-api-key: KEY` or `authorization:
/// Bearer KEY`), empty when no keys are configured, nothing when the key is none of those. Takes
/// the same time for every wrong key.
std::optional<std::string> credential_of(const config& settings, const request& incoming);

/// Returns: a refusal of a request to /admin, or nothing. With `admin-key` set, the request must
/// have it as `x-admin-key: KEY` (compared in constant time). Without one, only people at this
/// machine may use /admin: the server must listen on loopback and have no api-key (which would mean
/// that others use it, too), the request must name localhost and come through no proxy, and it must
/// not come from a web page.
std::optional<response> refuse_admin(const config& settings, const request& incoming);

/// Whether `key` is the admin-key; never where none is set.
bool is_admin_key(const config& settings, std::string_view key);

/// Returns: a refusal of a request to /metrics, or nothing: see metrics_readers.
std::optional<response> refuse_reader(const config& settings, const request& incoming);

/// Counts the request and writes its line to the log. `status` 499: the client left before there
/// was a reply.
void end_request(const services& server, const request& incoming, const route_match& match,
                 int status, std::chrono::steady_clock::duration took);

}  // namespace semantic::server

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

/// The reply before the body is read, if there is one: another server's name, OPTIONS, no such
/// route, wrong method, a page that may not, no key, server starting or stopping.
std::optional<response> refuse_early(const services& server, const request& incoming,
                                     const route_match& match);

/// Returns: why no engine answers now, in the request's dialect; nothing when one does.
std::optional<response> refuse_without_engine(const services& server, const request& incoming);
/// Whether a request on this route waits for an engine where there is none now. Requires: a route
/// was found.
bool may_wait(const services& server, const route_match& match);
/// Leases the engine for the request, unless it has it. Returns: why there is none.
std::optional<response> take_engine(const services& server, request& incoming,
                                    std::optional<std::size_t> model = {});

/// Takes a slot among those that the key's tenant may have at once, and one of its requests, where
/// the route makes the model work. Returns: 429 in the request's dialect when it has no more.
std::optional<response> take_key_slot(const services& server, request& incoming,
                                      const route_match& match);

/// Returns: the credential of the tenant whose key was sent (`x-api-key: KEY` or `authorization:
/// Bearer KEY`), empty when no keys are configured, nothing when the key is none of those. Takes
/// the same time for every wrong key.
std::optional<std::string> credential_of(const config& settings, const request& incoming);

/// Why a request may not use /admin, if it may not. With `admin-key` it must be there as
/// `x-admin-key: KEY`, compared in constant time. Without one, only the people of this machine may:
/// when the server listens on loopback and has no api-key, which would say that others use it too;
/// when they ask for localhost, and no proxy for them; and no page in their browser may speak for
/// them.
std::optional<response> refuse_admin(const config& settings, const request& incoming);

/// Whether `key` is the admin's; never where the server was given none.
bool is_admin_key(const config& settings, std::string_view key);

/// Why a request may not read /metrics, if it may not: see metrics_readers.
std::optional<response> refuse_reader(const config& settings, const request& incoming);

/// Counts the request and writes its line to the log. `status` 499: the client left before there
/// was a reply.
void end_request(const services& server, const request& incoming, const route_match& match,
                 int status, std::chrono::steady_clock::duration took);

}  // namespace semantic::server

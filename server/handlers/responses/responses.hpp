// SPDX-License-Identifier: Apache-2.0
#pragma once
// /v1/responses: parse, ask the engine, answer as one response or as a stream of events.
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// POST /v1/responses: makes a response.
boost::asio::awaitable<std::optional<response>> post_responses(const services& server,
                                                               const request& incoming,
                                                               client_link& client);

/// GET /v1/responses/{id}: the response, stored or still being made in the background; with
/// `stream=true` the events of the latter after number `starting_after`.
boost::asio::awaitable<std::optional<response>> get_response(const services& server,
                                                             const request& incoming,
                                                             client_link& client);
/// GET /v1/responses/{id}/input_items: page by page: `limit`, `order`, `after`.
boost::asio::awaitable<std::optional<response>> get_response_items(const services& server,
                                                                   const request& incoming,
                                                                   client_link& client);
/// DELETE /v1/responses/{id}: deletes the response, and stops it where it is still being made.
boost::asio::awaitable<std::optional<response>> delete_response(const services& server,
                                                                const request& incoming,
                                                                client_link& client);
/// POST /v1/responses/{id}/cancel: stops a response that is made in the background. 400 for others.
boost::asio::awaitable<std::optional<response>> post_response_cancel(const services& server,
                                                                     const request& incoming,
                                                                     client_link& client);

}  // namespace semantic::server

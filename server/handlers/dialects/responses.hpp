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

boost::asio::awaitable<std::optional<response>> post_responses(const services& with,
                                                               const request& incoming,
                                                               client_link& client);

/// The response that was kept by the path's id.
response get_response(const services& with, const request& incoming);
/// What that response was asked, page by page: `limit`, `order`, `after`.
boost::asio::awaitable<std::optional<response>> get_response_items(const services& with,
                                                                   const request& incoming,
                                                                   client_link& client);
boost::asio::awaitable<std::optional<response>> delete_response(const services& with,
                                                                const request& incoming,
                                                                client_link& client);
/// 400: a response that is known by its id has ended.
response post_response_cancel(const services& with, const request& incoming);

/// 426: clients that would rather speak over a WebSocket take that for "not here" and post instead;
/// after a 404 they try again.
response get_responses(const services& with, const request& incoming);

}  // namespace semantic::server

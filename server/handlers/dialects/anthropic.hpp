// SPDX-License-Identifier: Apache-2.0
#pragma once
// POST /v1/messages, /v1/messages/count_tokens and /api/event_logging/batch: parse, ask the engine,
// answer as one body or as a stream of events. Cancelled half-way (server stop): the engine request
// is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

boost::asio::awaitable<std::optional<response>> post_messages(const services& server,
                                                              const request& incoming,
                                                              client_link& client);
boost::asio::awaitable<std::optional<response>> post_count_tokens(const services& server,
                                                                  const request& incoming,
                                                                  client_link& client);

/// Answers {}: Claude Code asks whether it reaches a server.
response get_hello(const services&, const request&);
/// Accepts Claude Code's telemetry, and discards it.
response post_event_logging(const services& server, const request& incoming);

}  // namespace semantic::server

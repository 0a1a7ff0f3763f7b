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

/// POST /v1/messages: answers a conversation.
boost::asio::awaitable<std::optional<response>> post_messages(const services& server,
                                                              const request& incoming,
                                                              client_link& client);
/// POST /v1/messages/count_tokens: counts the prompt tokens of a request.
boost::asio::awaitable<std::optional<response>> post_count_tokens(const services& server,
                                                                  const request& incoming,
                                                                  client_link& client);

/// GET /api/hello: answers {}. Claude Code asks this to see whether it reaches a server.
response get_hello(const services&, const request&);
/// POST /api/event_logging/batch: accepts Claude Code's telemetry, and discards it.
response post_event_logging(const services& server, const request& incoming);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /ws: the server's state over a WebSocket (protocol/live). Hides everything of Beast's
// WebSockets.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /ws: serves one watcher. Ends when the client leaves, breaks a rule or reads too slowly, or
/// when the server stops.
boost::asio::awaitable<std::optional<response>> get_ws(const services& server,
                                                       const request& incoming,
                                                       client_link& client);

}  // namespace semantic::server

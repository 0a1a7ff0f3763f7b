// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /ws/kv-events: which KV blocks this server has on disk, over a WebSocket (protocol/live).
// Permission: refuse_admin(), because the events contain the tokens of every tenant's texts.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /ws/kv-events. Ends when the client leaves, sends anything or reads too slowly, or when the
/// server stops.
boost::asio::awaitable<std::optional<response>> get_kv_events(const services& server,
                                                              const request& incoming,
                                                              client_link& client);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// /admin: what concerns every tenant's memory; models: handlers/models/model_changes. Permission:
// refuse_admin().

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /admin/nodes: {"nodes":[…]}, of live/node_board.hpp.
response get_nodes(const services& server, const request& incoming);

/// Forgets every agent of every tenant, but those that answer a request now.
boost::asio::awaitable<std::optional<response>> delete_caches(const services& server,
                                                              const request& incoming,
                                                              client_link& client);
/// The seed of requests that bring none.
response post_seed(const services& server, const request& incoming);

}  // namespace semantic::server

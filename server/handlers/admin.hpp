// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handlers of /admin that concern every tenant's memory; those of models are in
// handlers/models/model_changes. Who may call them: refuse_admin().

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /admin/nodes: {"nodes":[…]}, of live/node_board.hpp.
response get_nodes(const services& server, const request& incoming);

/// DELETE /admin/caches: forgets every agent of every tenant, but those that answer a request now.
/// `?model=NAME` forgets only what that model remembers.
boost::asio::awaitable<std::optional<response>> delete_caches(const services& server,
                                                              const request& incoming,
                                                              client_link& client);
/// POST /admin/seed: sets the seed of requests that bring none.
response post_seed(const services& server, const request& incoming);

}  // namespace semantic::server

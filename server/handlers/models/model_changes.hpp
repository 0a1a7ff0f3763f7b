// SPDX-License-Identifier: Apache-2.0
#pragma once
// /admin/models: shows which models run, replaces them and loads further ones. Permission:
// refuse_admin().

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /admin/models/current: the usual model.
response get_current_model(const services& server, const request& incoming);
/// GET /admin/models/available: the names of the models that can be loaded.
response get_available_models(const services& server, const request& incoming);
/// POST /admin/models/swap: loads another model in place of the usual one, and replies when that is
/// over: success, or what failed and which model runs now. With "stream": true the phases come as
/// events meanwhile. The change goes on when the client leaves.
boost::asio::awaitable<std::optional<response>> post_swap_model(const services& server,
                                                                const request& incoming,
                                                                client_link& client);
/// POST /admin/models/load: loads a model in addition to those loaded, as far as max-loaded allows.
boost::asio::awaitable<std::optional<response>> post_load_model(const services& server,
                                                                const request& incoming,
                                                                client_link& client);
/// POST /admin/models/unload: saves the agents of the named model (of the usual one where none is
/// named), and takes it out of memory. Replies when that is over.
boost::asio::awaitable<std::optional<response>> post_unload_model(const services& server,
                                                                  const request& incoming,
                                                                  client_link& client);

}  // namespace semantic::server

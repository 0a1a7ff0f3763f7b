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

/// The usual model.
response get_current_model(const services& server, const request& incoming);
response get_available_models(const services& server, const request& incoming);
/// Exchanges the usual model, and replies when that is over: success, or what broke and what runs
/// now. With "stream": true the phases come as events meanwhile. A client that leaves changes
/// nothing.
boost::asio::awaitable<std::optional<response>> post_swap_model(const services& server,
                                                                const request& incoming,
                                                                client_link& client);
/// Loads a model into a free slot, as far as max-loaded allows.
boost::asio::awaitable<std::optional<response>> post_load_model(const services& server,
                                                                const request& incoming,
                                                                client_link& client);
/// Saves the agents of the model that is named, else of the usual one, and takes it out of memory;
/// replies when that is over.
boost::asio::awaitable<std::optional<response>> post_unload_model(const services& server,
                                                                  const request& incoming,
                                                                  client_link& client);

}  // namespace semantic::server

#pragma once
// /admin/models: which model runs, and another in its place. Permission: refuse_admin().

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// The model whose engine is there.
response get_current_model(const services& with, const request& incoming);
response get_available_models(const services& with, const request& incoming);
/// Exchanges the model, and replies when that is over: success, or what broke and what runs now.
/// With "stream": true the phases come as events meanwhile. A client that leaves changes nothing.
boost::asio::awaitable<std::optional<response>> post_swap_model(const services& with,
                                                                const request& incoming,
                                                                client_link& client);
/// Loads a model where none is. Beside another one none is loaded.
boost::asio::awaitable<std::optional<response>> post_load_model(const services& with,
                                                                const request& incoming,
                                                                client_link& client);
/// Saves all agents and takes the model out of memory; replies when that is over.
boost::asio::awaitable<std::optional<response>> post_unload_model(const services& with,
                                                                  const request& incoming,
                                                                  client_link& client);

}  // namespace semantic::server

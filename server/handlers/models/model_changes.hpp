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
/// Refused: a server has a model from its start on.
response post_offload_model(const services& with, const request& incoming);

}  // namespace semantic::server

#pragma once
// /admin: what concerns every tenant's memory and the model. Permission: refuse_admin().

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// Forgets every agent of every tenant, but those that answer a request now.
boost::asio::awaitable<std::optional<response>> delete_caches(const services& with,
                                                              const request& incoming,
                                                              client_link& client);
/// The seed of requests that bring none.
response post_seed(const services& with, const request& incoming);
response get_current_model(const services& with, const request& incoming);
response get_available_models(const services& with, const request& incoming);
/// One model runs from start to stop: asking for it succeeds, asking for another is refused.
response post_swap_model(const services& with, const request& incoming);
response post_offload_model(const services& with, const request& incoming);

}  // namespace semantic::server

#pragma once
// POST /v1/responses/compact: the model sums a conversation up, on a branch of its memory.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

boost::asio::awaitable<std::optional<response>> post_compact(const services& with,
                                                             const request& incoming,
                                                             client_link& client);

}  // namespace semantic::server

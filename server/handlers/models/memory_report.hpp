// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /debug/memory: what was planned for the model that runs, and what the process takes.
// Permission: refuse_admin().

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

boost::asio::awaitable<std::optional<response>> get_memory(const services& server,
                                                           const request& incoming,
                                                           client_link& client);

}  // namespace semantic::server

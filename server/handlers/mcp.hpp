// SPDX-License-Identifier: Apache-2.0
#pragma once
// POST /mcp: the Model Context Protocol. A tool's call is done by the handler of the route that
// does the same, as a request of the same client: its tenant, its limits and its account are the
// same. Cancelled half-way (server stop): what the handler does.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// POST /mcp: handles one message of the protocol.
boost::asio::awaitable<std::optional<response>> post_mcp(const services& parts,
                                                         const request& incoming,
                                                         client_link& client);

}  // namespace semantic::server

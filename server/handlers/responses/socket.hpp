// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /v1/responses, upgraded: responses over a WebSocket. A client's message {"type":
// "response.create", ...} is the body of a POST; each event of its stream is a message. A client
// that stays connected may follow its latest response by its id although nothing of it is stored.

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

inline constexpr std::size_t response_sockets_max = 64;  // at once
/// The most sockets of one tenant, where clients have keys.
inline constexpr std::size_t response_sockets_of_tenant_max = 16;
inline constexpr std::size_t waiting_requests_max =
    8;  // messages of one, while another is answered

/// GET /v1/responses. Ends when the client leaves or breaks a rule, or the server stops. Without an
/// upgrade the reply is 426: clients that prefer a WebSocket then use POST; after a 404 they would
/// try again.
boost::asio::awaitable<std::optional<response>> get_responses(const services& server,
                                                              const request& incoming,
                                                              client_link& client);

}  // namespace semantic::server

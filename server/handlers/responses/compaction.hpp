#pragma once
// POST /v1/responses/compact: the model sums a conversation up, on a branch of its memory.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// POST /v1/responses/input_tokens: what a request would report, without an answer.
boost::asio::awaitable<std::optional<response>> post_input_tokens(const services& parts,
                                                                  const request& incoming,
                                                                  client_link& client);
boost::asio::awaitable<std::optional<response>> post_compact(const services& server,
                                                             const request& incoming,
                                                             client_link& client);

}  // namespace semantic::server

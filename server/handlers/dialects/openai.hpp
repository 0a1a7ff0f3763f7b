// SPDX-License-Identifier: Apache-2.0
#pragma once
// POST /v1/chat/completions and /v1/completions: parse, ask the engine, answer as one body or as a
// stream of chunks.
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// POST /v1/chat/completions: answers a conversation.
boost::asio::awaitable<std::optional<response>> post_chat_completions(const services& server,
                                                                      const request& incoming,
                                                                      client_link& client);

/// POST /v1/embeddings: 400, because the server has no embedding models.
response refuse_embeddings(const services& server, const request& incoming);

/// POST /v1/completions: continues a text.
boost::asio::awaitable<std::optional<response>> post_completions(const services& server,
                                                                 const request& incoming,
                                                                 client_link& client);

}  // namespace semantic::server

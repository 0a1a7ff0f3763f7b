// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations of responses that have become long: POST /v1/responses/compact, and those that a
// request has summarised before it is answered (context_management). The model makes the summary on
// a branch of its memory.

#include <boost/asio/awaitable.hpp>

#include <optional>
#include <string>

#include "protocol/responses/request.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// Replaces the conversation of a request by a summary where its prompt is longer than the request
/// allows (response_request::compacts_above), and frees its body. `own`: as for parse_asked().
/// Returns: the summary, which the reply begins with; empty where none was due or it could not be
/// made, and the whole conversation is used.
boost::asio::awaitable<std::string> compact_when_due(const answer_context& asked,
                                                     const own_lookup& own,
                                                     protocol::responses::response_request& parsed);

/// POST /v1/responses/input_tokens: counts the prompt tokens of a request.
boost::asio::awaitable<std::optional<response>> post_input_tokens(const services& parts,
                                                                  const request& incoming,
                                                                  client_link& client);
/// POST /v1/responses/compact: replies with a summary of the conversation and the user's messages.
boost::asio::awaitable<std::optional<response>> post_compact(const services& server,
                                                             const request& incoming,
                                                             client_link& client);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// /v1/conversations: made, read, changed and deleted, with their items.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

using conversation_reply = boost::asio::awaitable<std::optional<response>>;

conversation_reply post_conversations(const services& server, const request& incoming,
                                      client_link&);
conversation_reply get_conversation(const services& server, const request& incoming, client_link&);
/// Other metadata.
conversation_reply post_conversation(const services& server, const request& incoming, client_link&);
/// Also while a response is being made that would add to it: that adds nothing then.
conversation_reply delete_conversation(const services& server, const request& incoming,
                                       client_link&);
/// Items more. 409: a response is adding its own.
conversation_reply post_conversation_items(const services& server, const request& incoming,
                                           client_link&);
/// Page by page: `limit`, `order`, `after`.
conversation_reply get_conversation_items(const services& server, const request& incoming,
                                          client_link&);
conversation_reply get_conversation_item(const services& server, const request& incoming,
                                         client_link&);
conversation_reply delete_conversation_item(const services& server, const request& incoming,
                                            client_link&);

}  // namespace semantic::server

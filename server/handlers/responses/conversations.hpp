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

/// POST /v1/conversations: makes a conversation.
conversation_reply post_conversations(const services& server, const request& incoming,
                                      client_link&);
/// GET /v1/conversations/{id}: its metadata.
conversation_reply get_conversation(const services& server, const request& incoming, client_link&);
/// POST /v1/conversations/{id}: replaces its metadata.
conversation_reply post_conversation(const services& server, const request& incoming, client_link&);
/// DELETE /v1/conversations/{id}. A response that is being made for it then adds nothing.
conversation_reply delete_conversation(const services& server, const request& incoming,
                                       client_link&);
/// POST /v1/conversations/{id}/items: adds items. 409 while a response is adding its own.
conversation_reply post_conversation_items(const services& server, const request& incoming,
                                           client_link&);
/// GET /v1/conversations/{id}/items: its items, page by page: `limit`, `order`, `after`.
conversation_reply get_conversation_items(const services& server, const request& incoming,
                                          client_link&);
/// GET /v1/conversations/{id}/items/{item}: one item.
conversation_reply get_conversation_item(const services& server, const request& incoming,
                                         client_link&);
/// DELETE /v1/conversations/{id}/items/{item}: removes an item. 409 while a response is adding its
/// own.
conversation_reply delete_conversation_item(const services& server, const request& incoming,
                                            client_link&);

}  // namespace semantic::server

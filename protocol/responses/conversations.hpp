// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vendor's conversations: lists of items that are kept under an id, to which responses add.
// Each is kept as a kept_response is (kept_response.hpp). Pure. Source: protocol/README.md.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/responses/kept_response.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::responses {

struct conversation_request {
    boost::json::array items{};  // as the client wrote them
    boost::json::object metadata{};
};

/// Parses the body that creates a conversation: `items` and `metadata`, both optional. Errors:
/// those of parse_response(), also for an item that no response could be asked with.
result<conversation_request> parse_conversation(std::string_view body,
                                                const response_limits& limits);
/// Parses the body that changes a conversation's metadata, which is required. Errors: also
/// missing_field.
result<boost::json::object> parse_metadata(std::string_view body, const response_limits& limits);
/// Parses the body that adds `items`. Errors: also missing_field.
result<boost::json::array> parse_items(std::string_view body, const response_limits& limits);

/// Returns: a new conversation, whose items get ids of `ids`.
kept_response new_conversation(std::string id, std::int64_t created_unix,
                               const conversation_request& from, id_maker& ids);
/// Returns: the conversation with other metadata.
kept_response with_metadata(const kept_response& one, const boost::json::object& metadata);
/// Returns: the conversation with `items` appended. `added`: set to these items with their ids.
result<kept_response> with_items(const kept_response& one, const boost::json::array& items,
                                 id_maker& ids, boost::json::array& added);
/// Returns: the conversation without the item `id`. Errors: not_found.
result<kept_response> without_item(const kept_response& one, std::string_view id);

/// {"id", "object": "conversation", "created_at", "metadata"}
std::string conversation_body(const kept_response& one);
/// Returns: the item `id` as JSON. Errors: not_found.
result<std::string> item_body(const kept_response& one, std::string_view id);
/// {"object": "list", "data", "first_id", "last_id", "has_more": false}
std::string added_body(const boost::json::array& added);
/// {"id", "object": "conversation.deleted", "deleted": true}
std::string deleted_conversation_body(std::string_view id);

}  // namespace semantic::protocol::responses

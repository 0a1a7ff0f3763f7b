#pragma once
// Responses that are kept by their id: what is written of one, how a conversation goes on from one,
// and what a client reads of it. Pure. Source: the Responses API as the vendor's SDKs speak it
// (protocol/README.md).

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/wire/errc.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::responses {

struct kept_response {
    std::string id;
    std::string previous;  // the response that its input follows, or empty: it is all
    std::int64_t created_unix = 0;
    std::string input;  // its items, a JSON array
    std::string body;   // the response itself, a JSON object
};

/// A record's bytes, and back. Errors: bad_value for what is none, or of another version.
std::string record_of(const kept_response& kept);
result<kept_response> kept_response_of(std::string_view record);

/// A request's `input` as a list of items, each with an id and a type.
boost::json::array named_items(const boost::json::value& input, id_maker& ids);
/// The items of a conversation, the oldest response first: what each was asked and what it said.
/// Errors: bad_value, when one cannot be read.
result<boost::json::array> items_of(std::span<const std::shared_ptr<const kept_response>> chain);

/// The ids of its items, asked and said, that can be referred to.
std::vector<std::string> item_ids(const kept_response& kept);
/// Those items.
std::map<std::string, boost::json::value> items_by_id(const kept_response& kept);

/// Whether it may be followed: one that has not ended, or failed, has said nothing. Errors:
/// bad_value.
result<void> check_has_ended(const kept_response& kept);
/// One that the server was still making when it stopped has failed. Returns: whether it was.
bool end_broken_off(kept_response& kept);
/// Whether it was made in the background.
bool was_in_background(const kept_response& kept);

/// A conversation is kept as a response is: its items are the input, its body is the conversation
/// itself, {"id", "object", "created_at", "metadata"}, with an output that is always empty.
failure conversation_not_found(std::string_view id);

/// The refusal of a response that is not kept, as `previous_response_id` and as the path's.
failure previous_not_found(std::string_view id);
failure response_not_found(std::string_view id);

struct item_page {
    std::size_t limit = 20;  // 1 to 100
    bool descending = true;  // the latest first
    std::string after{};     // an item's id, or empty: from the beginning
};
/// Errors: bad_value, with the parameter's name.
result<item_page> parse_item_page(const std::optional<std::string>& limit,
                                  const std::optional<std::string>& order,
                                  const std::optional<std::string>& after);
/// {"object": "list", "data", "first_id", "last_id", "has_more"}: the request's own items. Errors:
/// not_found for an unknown `after`.
result<std::string> input_items_body(const kept_response& kept, const item_page& page);
/// {"id", "object": "response", "deleted": true}
std::string deleted_body(std::string_view id);

}  // namespace semantic::protocol::responses

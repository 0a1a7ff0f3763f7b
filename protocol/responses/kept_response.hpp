// SPDX-License-Identifier: Apache-2.0
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
#include "storage/types/work_budget.hpp"

namespace semantic::protocol::responses {

/// Takes the next item of a conversation.
using item_reader = std::function<void(const boost::json::value& item)>;
/// Returns the item that an item reference names, valid until the next call; null where there is
/// none.
using referenced_item = std::function<const boost::json::value*(const std::string& id)>;

struct kept_response {
    std::string id;
    std::string previous;  // the response that its input follows, or empty: it is all
    std::int64_t created_unix = 0;
    std::string input;  // its items, a JSON array as to_text() writes it
    std::string body;   // the response itself, a JSON object
};

/// A record's bytes, and the response read from them. Errors: bad_value for what is no record, or
/// one of another version.
std::string record_of(const kept_response& kept);
result<kept_response> kept_response_of(std::string_view record);

/// Returns: a request's `input` as a list of items, each with an id and a type.
boost::json::array named_items(const boost::json::value& input, id_maker& ids);
/// Returns: a request's `input` as the JSON text of a list of items, each with an id and a type;
/// references are replaced by the items that they name, so that it stays complete when those are
/// deleted. `budget`: charged for these items; may be null. Throws work_limit_exceeded.
std::string named_items_text(const boost::json::value& input, const referenced_item& item_of,
                             id_maker& ids, storage::work_budget* budget);
/// Returns: the JSON array `first` with the items of `second` appended; both are texts and are not
/// parsed.
std::string joined_items(std::string first, std::string_view second);
/// Returns: the items of a response's output as a JSON array; also a call that the end of the
/// answer cut off, as the client has it.
std::string said_items_text(const boost::json::object& response);
/// Returns: all items that the responses were asked and said, the oldest response first, as a JSON
/// array. Errors: bad_value, when one cannot be read.
result<std::string> items_text_of(std::span<const std::shared_ptr<const kept_response>> chain);

/// Returns: an upper bound of the bytes that a JSON value takes in memory. Takes time in proportion
/// to its number of values.
std::size_t memory_of(const boost::json::value& value);

/// Calls `read` with each item that the response was asked, then each that it said. `budget`:
/// charged for what is parsed while it is in memory; may be null. Errors: bad_value, when it cannot
/// be read. Throws work_limit_exceeded.
result<void> read_items(const kept_response& kept, const item_reader& read,
                        storage::work_budget* budget = nullptr);
/// Returns: the items of a conversation, the oldest response first. Errors: as read_items().
result<boost::json::array> items_of(std::span<const std::shared_ptr<const kept_response>> chain);

/// Returns: the ids of all its items that can be referred to. Errors: as read_items().
result<std::vector<std::string>> item_ids(const kept_response& kept);

/// Finds items that a request refers to, in the responses that have them. References mostly come in
/// the order of the responses, so the parsed list of one response is kept until another one is
/// asked for. Owner: the parser of the request. Thread: one at a time.
class item_finder {
  public:
    /// `budget`: charged for what is read; may be null.
    explicit item_finder(storage::work_budget* budget) : budget_(budget) {}

    /// Returns: the item of that id, valid until the next call; null where `kept` has none. Throws
    /// work_limit_exceeded.
    const boost::json::value* find(const kept_response& kept, const std::string& id);

  private:
    struct item_list {
        std::string response_id;  // the response's id
        // The parsed text, into which `items` points, and the memory that the budget holds for it.
        boost::json::value whole{};
        std::map<std::string, const boost::json::value*> items{};
        std::optional<storage::charged_bytes> charged{};
    };
    const boost::json::value* find_in(item_list& list, const kept_response& kept,
                                      const std::string& text, const std::string& id);

    storage::work_budget* budget_;
    // Of the body and of the input: the output of a response is searched first.
    item_list said_;
    item_list asked_;
};

/// Checks that the response can be followed by another one: it must have ended. One that failed can
/// be followed: its question stays, with what was said before the failure. Errors: bad_value.
result<void> check_has_ended(const kept_response& kept);
/// Marks a response as failed that the server was still making when it stopped. Returns: whether it
/// was one.
bool end_broken_off(kept_response& kept);
/// Whether the response was made in the background.
bool was_in_background(const kept_response& kept);

/// A conversation is kept as a response is: its items are the input, its body is the conversation
/// itself, {"id", "object", "created_at", "metadata"}, with an output that is always empty.
failure conversation_not_found(std::string_view id);

/// The errors for a response that is not kept: named by `previous_response_id`, and by the path.
failure previous_not_found(std::string_view id);
failure response_not_found(std::string_view id);

struct item_page {
    std::size_t limit = 20;  // 1 to 100
    bool descending = true;  // the latest first
    std::string after{};     // an item's id, or empty: from the beginning
};
/// Reads the query parameters of a page. Errors: bad_value, with the parameter's name.
result<item_page> parse_item_page(const std::optional<std::string>& limit,
                                  const std::optional<std::string>& order,
                                  const std::optional<std::string>& after);
/// Returns: {"object": "list", "data", "first_id", "last_id", "has_more"}, a page of the request's
/// own items. Errors: not_found for an unknown `after`.
result<std::string> input_items_body(const kept_response& kept, const item_page& page);
/// {"id", "object": "response", "deleted": true}
std::string deleted_body(std::string_view id);

}  // namespace semantic::protocol::responses

// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/conversations.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

#include "protocol/responses/input_items.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

/// Returns: the items, after checking that a response could be asked with each.
json::array checked_items(const json_cursor& list, const response_limits& limits) {
    check_items(list, limits);
    return list.ok() ? list.value().as_array() : json::array();
}

/// The member metadata; empty where there is none.
json::object metadata_at(const json_cursor& root) {
    auto field = root.find("metadata");
    return field ? field->as_object() : json::object();
}

/// Returns: the JSON value in a kept text; null where it cannot be read.
json::value read(std::string_view text) {
    auto value = parse_json(text, json_limits{});
    return value ? std::move(*value) : json::value();
}

/// The items of a conversation; none where they cannot be read.
json::array items_in(const kept_response& one) {
    const json::value items = read(one.input);
    return items.is_array() ? items.get_array() : json::array();
}

bool has_id(const json::value& item, std::string_view id) {
    const json::value* found = item.is_object() ? item.get_object().if_contains("id") : nullptr;
    return found != nullptr && found->is_string() && found->get_string() == id;
}

failure no_item(std::string_view id) {
    return fail(errc::not_found, "Item with id " + quoted(id) + " not found.");
}

/// Returns: the body of a conversation as it is kept. Its output is empty, since all that was said
/// is among its items.
std::string body_of(std::string_view id, std::int64_t created, const json::object& metadata) {
    return to_text(json::object{{"id", id},
                                {"object", "conversation"},
                                {"created_at", created},
                                {"metadata", metadata},
                                {"output", json::array()}});
}

}  // namespace

result<conversation_request> parse_conversation(std::string_view body,
                                                const response_limits& limits) {
    return read_object(body, limits.json, [&](const json_cursor& root) {
        conversation_request request;
        if (auto items = root.find("items")) request.items = checked_items(*items, limits);
        request.metadata = metadata_at(root);
        return request;
    });
}

result<json::object> parse_metadata(std::string_view body, const response_limits& limits) {
    return read_object(body, limits.json, [&](const json_cursor& root) {
        // at() of a field that is not there is the error missing_field.
        if (root.ok() && !root.value().as_object().contains("metadata")) root.at("metadata");
        return metadata_at(root);
    });
}

result<json::array> parse_items(std::string_view body, const response_limits& limits) {
    return read_object(body, limits.json, [&](const json_cursor& root) {
        return checked_items(root.at("items"), limits);
    });
}

kept_response new_conversation(std::string id, std::int64_t created_unix,
                               const conversation_request& from, id_maker& ids) {
    kept_response made;
    made.id = std::move(id);
    made.created_unix = created_unix;
    made.input = to_text(named_items(from.items, ids));
    made.body = body_of(made.id, created_unix, from.metadata);
    return made;
}

kept_response with_metadata(const kept_response& one, const json::object& metadata) {
    kept_response made = one;
    made.body = body_of(one.id, one.created_unix, metadata);
    return made;
}

result<kept_response> with_items(const kept_response& one, const json::array& items, id_maker& ids,
                                 json::array& added) {
    added = named_items(items, ids);
    kept_response made = one;
    made.input = joined_items(std::move(made.input), to_text(added));
    return made;
}

result<kept_response> without_item(const kept_response& one, std::string_view id) {
    json::array all = items_in(one);
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& item) { return has_id(item, id); });
    if (found == all.end()) return no_item(id);
    all.erase(found);
    kept_response made = one;
    made.input = to_text(all);
    return made;
}

std::string conversation_body(const kept_response& one) {
    json::value body = read(one.body);
    // Its record has an output, as those of responses do; clients see none.
    if (body.is_object()) body.get_object().erase("output");
    return to_text(body);
}

result<std::string> item_body(const kept_response& one, std::string_view id) {
    const json::array all = items_in(one);
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& item) { return has_id(item, id); });
    if (found == all.end()) return no_item(id);
    return to_text(*found);
}

std::string added_body(const json::array& added) {
    // named_items() has given each item an id.
    const auto id_of = [](const json::value& item) { return item.as_object().at("id"); };
    return to_text(json::object{{"object", "list"},
                                {"data", added},
                                {"first_id", added.empty() ? json::value() : id_of(added.front())},
                                {"last_id", added.empty() ? json::value() : id_of(added.back())},
                                {"has_more", false}});
}

std::string deleted_conversation_body(std::string_view id) {
    return to_text(json::object{{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}});
}

}  // namespace semantic::protocol::responses

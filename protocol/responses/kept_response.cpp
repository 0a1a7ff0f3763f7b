#include "protocol/responses/kept_response.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

constexpr int record_version = 1;

/// What the vendor's ids of such an item begin with.
std::string_view id_head(std::string_view type) {
    if (type == "reasoning") return "rs_";
    if (type == "function_call") return "fc_";
    if (type == "custom_tool_call") return "ctc_";
    if (type == "function_call_output") return "fco_";
    if (type == "custom_tool_call_output") return "ctco_";
    return "msg_";
}

/// An item that was read before.
json::object named(json::object item, id_maker& ids) {
    item.emplace("type", "message");
    const json::value& type = item.at("type");
    if (!item.contains("id") || !item.at("id").is_string())
        item["id"] = ids.make(id_head(type.is_string() ? type.get_string() : json::string()));
    // A client may say a message's text without the list that it is one of.
    const json::value* content = item.if_contains("content");
    if (content != nullptr && content->is_string()) {
        const json::value* role = item.if_contains("role");
        const bool is_said = role != nullptr && *role == "assistant";
        item["content"] = json::array{
            {{"type", is_said ? "output_text" : "input_text"}, {"text", item.at("content")}}};
    }
    return item;
}

json::value* field_of(json::value& object, std::string_view key) {
    return object.is_object() ? object.get_object().if_contains(key) : nullptr;
}

/// A call that a limit cut, whose arguments have no end.
bool is_half_a_call(json::value& item) {
    const json::value* status = field_of(item, "status");
    const json::value* content = field_of(item, "content");
    return content == nullptr && status != nullptr && *status == "incomplete";
}

failure unreadable(std::string_view what) {
    return fail(errc::bad_value, "the record of a response " + std::string(what));
}

/// What it was asked and what it said.
result<json::array> own_items(const kept_response& kept) {
    auto asked = parse_json(kept.input, json_limits{});
    auto said = parse_json(kept.body, json_limits{});
    json::value* output = said ? field_of(*said, "output") : nullptr;
    if (!asked || !asked->is_array() || output == nullptr || !output->is_array())
        return unreadable("cannot be read: " + kept.id);
    json::array items = std::move(asked->get_array());
    for (json::value& each : output->get_array())
        if (!is_half_a_call(each)) items.push_back(std::move(each));
    return items;
}

/// An item's id; null for one that refers to another itself.
const json::value* referable_id(json::value& item) {
    const json::value* type = field_of(item, "type");
    const json::value* id = field_of(item, "id");
    const bool refers = type != nullptr && *type == "item_reference";
    return refers || id == nullptr || !id->is_string() ? nullptr : id;
}

}  // namespace

std::string record_of(const kept_response& kept) {
    // Its parts are texts of JSON already, which need not be read to be written.
    return to_text(json::object{{"version", record_version},
                                {"id", kept.id},
                                {"previous", kept.previous},
                                {"created", kept.created_unix},
                                {"input", kept.input},
                                {"body", kept.body}});
}

result<kept_response> kept_response_of(std::string_view record) {
    json_limits limits;
    limits.bytes_max = record.size();
    auto read = parse_json(record, limits);
    if (!read) return unreadable("is no JSON");
    const json::value* version = field_of(*read, "version");
    if (version == nullptr || *version != record_version)
        return unreadable("is of another version");
    kept_response kept;
    const json::value* created = field_of(*read, "created");
    if (created == nullptr || !created->is_int64()) return unreadable("has no time");
    kept.created_unix = created->get_int64();
    for (auto [key, text] : {std::pair{"id", &kept.id}, std::pair{"previous", &kept.previous},
                             std::pair{"input", &kept.input}, std::pair{"body", &kept.body}}) {
        const json::value* field = field_of(*read, key);
        if (field == nullptr || !field->is_string())
            return unreadable(std::string("has no ") + key);
        *text = std::string(field->get_string());
    }
    return kept;
}

json::array named_items(const json::value& input, id_maker& ids) {
    json::array items;
    if (input.is_string()) {
        items.push_back(named({{"role", "user"}, {"content", input}}, ids));
    } else if (input.is_array()) {
        for (const json::value& each : input.get_array())
            if (each.is_object()) items.push_back(named(each.get_object(), ids));
    }
    return items;
}

result<json::array> items_of(std::span<const std::shared_ptr<const kept_response>> chain) {
    json::array items;
    for (const auto& kept : chain) {
        auto own = own_items(*kept);
        if (!own) return own.error();
        for (json::value& each : *own) items.push_back(std::move(each));
    }
    return items;
}

std::vector<std::string> item_ids(const kept_response& kept) {
    std::vector<std::string> ids;
    auto items = own_items(kept);
    if (!items) return ids;
    for (json::value& each : *items)
        if (const json::value* id = referable_id(each)) ids.emplace_back(id->get_string());
    return ids;
}

std::map<std::string, json::value> items_by_id(const kept_response& kept) {
    std::map<std::string, json::value> found;
    auto items = own_items(kept);
    if (!items) return found;
    for (json::value& each : *items) {
        const json::value* id = referable_id(each);
        if (id == nullptr) continue;
        std::string name(id->get_string());
        found.emplace(std::move(name), std::move(each));
    }
    return found;
}

result<void> check_has_ended(const kept_response& kept) {
    auto body = parse_json(kept.body, json_limits{});
    const json::value* status = body ? field_of(*body, "status") : nullptr;
    if (status == nullptr || !status->is_string()) return unreadable("has no status");
    const auto& word = status->get_string();
    if (word != "queued" && word != "in_progress" && word != "failed") return {};
    failure f = fail(errc::bad_value, "Previous response with id " + quoted(kept.id) +
                                          " cannot be continued: it is " + std::string(word) + ".");
    f.path = "previous_response_id";
    return f;
}

bool end_broken_off(kept_response& kept) {
    auto body = parse_json(kept.body, json_limits{});
    json::value* status = body ? field_of(*body, "status") : nullptr;
    if (status == nullptr || (*status != "queued" && *status != "in_progress")) return false;
    *status = "failed";
    body->get_object()["error"] =
        json::object{{"code", "server_error"},
                     {"message", "the server stopped before the response was complete"}};
    kept.body = to_text(*body);
    return true;
}

bool was_in_background(const kept_response& kept) {
    auto body = parse_json(kept.body, json_limits{});
    const json::value* flag = body ? field_of(*body, "background") : nullptr;
    return flag != nullptr && *flag == true;
}

failure conversation_not_found(std::string_view id) {
    failure f = fail(errc::not_found, "Conversation with id " + quoted(id) + " not found.");
    f.error_code = "conversation_not_found";
    return f;
}

failure previous_not_found(std::string_view id) {
    failure f = fail(errc::not_found, "Previous response with id " + quoted(id) + " not found.");
    f.path = "previous_response_id";
    f.error_code = "previous_response_not_found";
    return f;
}

failure response_not_found(std::string_view id) {
    return fail(errc::not_found, "Response with id " + quoted(id) + " not found.");
}

result<item_page> parse_item_page(const std::optional<std::string>& limit,
                                  const std::optional<std::string>& order,
                                  const std::optional<std::string>& after) {
    const auto refused = [](const char* path, std::string why) {
        failure f = fail(errc::bad_value, std::string(path) + ": " + std::move(why));
        f.path = path;
        return f;
    };
    item_page page;
    if (limit) {
        const char* end = limit->data() + limit->size();
        const auto read = std::from_chars(limit->data(), end, page.limit);
        if (read.ec != std::errc() || read.ptr != end || page.limit < 1 || page.limit > 100)
            return refused("limit", "must be a number from 1 to 100, is " + quoted(*limit));
    }
    if (order) {
        page.descending = *order == "desc";
        if (!page.descending && *order != "asc")
            return refused("order", R"(must be "asc" or "desc", is )" + quoted(*order));
    }
    page.after = after.value_or(std::string());
    return page;
}

result<std::string> input_items_body(const kept_response& kept, const item_page& page) {
    auto read = parse_json(kept.input, json_limits{});
    if (!read || !read->is_array()) return unreadable("cannot be read: " + kept.id);
    json::array& items = read->get_array();
    if (page.descending) std::reverse(items.begin(), items.end());
    const auto id_of = [](json::value& item) -> json::value {
        const json::value* id = field_of(item, "id");
        return id == nullptr ? json::value() : *id;
    };
    auto first = items.begin();
    if (!page.after.empty()) {
        first = std::find_if(items.begin(), items.end(), [&](json::value& item) {
            return id_of(item) == json::value(page.after);
        });
        if (first == items.end())
            return fail(errc::not_found, "after: there is no item " + quoted(page.after));
        ++first;
    }
    const auto left = static_cast<std::size_t>(items.end() - first);
    json::array data(first, first + static_cast<std::ptrdiff_t>(std::min(left, page.limit)));
    json::value first_id, last_id;
    if (!data.empty()) {
        first_id = id_of(data.front());
        last_id = id_of(data.back());
    }
    return to_text(json::object{{"object", "list"},
                                {"data", std::move(data)},
                                {"first_id", std::move(first_id)},
                                {"last_id", std::move(last_id)},
                                {"has_more", left > page.limit}});
}

std::string deleted_body(std::string_view id) {
    return to_text(json::object{{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace semantic::protocol::responses

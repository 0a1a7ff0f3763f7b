// SPDX-License-Identifier: Apache-2.0
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

/// Returns: the beginning of the vendor's ids of items of this type.
std::string_view id_head(std::string_view type) {
    if (type == "reasoning") return "rs_";
    if (type == "function_call") return "fc_";
    if (type == "custom_tool_call") return "ctc_";
    if (type == "function_call_output") return "fco_";
    if (type == "custom_tool_call_output") return "ctco_";
    return "msg_";
}

/// Returns: the item with `id` and `type` added where it has none, and a message's text as a list
/// of parts.
json::object named(json::object item, id_maker& ids) {
    item.emplace("type", "message");
    const json::value& type = item.at("type");
    if (!item.contains("id") || !item.at("id").is_string())
        item["id"] = ids.make(id_head(type.is_string() ? type.get_string() : json::string()));
    // A client may write a message's content as a text instead of a list of parts.
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

const json::value* field_of(const json::value& object, std::string_view key) {
    return object.is_object() ? object.get_object().if_contains(key) : nullptr;
}

/// The error of a record that is damaged, or that another version wrote.
failure unreadable(std::string_view fault) {
    return fail(errc::bad_value, "the record of a response " + std::string(fault));
}

/// Returns: an upper bound of the memory that parsing a JSON text takes: its own bytes, and a fixed
/// size for each value. Outside of strings every value but the first follows one of the four
/// characters that are counted.
std::size_t parsing_bytes(std::string_view text) {
    constexpr std::size_t of_value = 48;
    std::size_t bytes = text.size() + of_value;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '"') in_string = !in_string;
        if (in_string && c == '\\') ++i;
        if (!in_string && (c == ',' || c == ':' || c == '[' || c == '{')) bytes += of_value;
    }
    return bytes;
}

// Bytes of text that are parsed in the time of one step of a budget.
constexpr std::size_t parsed_bytes_a_step = 16;

/// Charges the budget for parsing `text`: steps at once, memory for as long as the returned object
/// lives. Throws work_limit_exceeded.
std::optional<storage::charged_bytes> charge_for(std::string_view text,
                                                 storage::work_budget* budget) {
    if (budget == nullptr) return std::nullopt;
    budget->charge_steps(text.size() / parsed_bytes_a_step + 1);
    return std::optional<storage::charged_bytes>(std::in_place, *budget, parsing_bytes(text));
}

/// Parses a kept list of items. Errors: bad_value when it is none.
result<json::value> read_list(const kept_response& kept, const std::string& text) {
    auto list = parse_json(text, json_limits{});
    if (!list || !list->is_array()) return unreadable("cannot be read: " + kept.id);
    return list;
}

/// Parses a kept response, which has a list `output`. Errors: bad_value when it has none.
result<json::value> read_body(const kept_response& kept) {
    auto said = parse_json(kept.body, json_limits{});
    const json::value* output = said ? field_of(*said, "output") : nullptr;
    if (output == nullptr || !output->is_array()) return unreadable("cannot be read: " + kept.id);
    return said;
}

/// Returns: the id by which the item can be referred to; null where it has none or is itself a
/// reference.
const json::value* referable_id(const json::value& item) {
    const json::value* type = field_of(item, "type");
    const json::value* id = field_of(item, "id");
    const bool refers = type != nullptr && *type == "item_reference";
    return refers || id == nullptr || !id->is_string() ? nullptr : id;
}

}  // namespace

std::string record_of(const kept_response& kept) {
    // `input` and `body` are JSON texts, which are stored as strings: they need not be parsed to be
    // written.
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
    // joined_items() appends to this text without parsing it, so it must be a list.
    if (!kept.input.starts_with('[') || !kept.input.ends_with(']'))
        return unreadable("has no list of items");
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

std::string named_items_text(const json::value& input, const referenced_item& item_of,
                             id_maker& ids, storage::work_budget* budget) {
    if (!input.is_array()) return to_text(named_items(input, ids));
    std::string text = "[";
    for (const json::value& each : input.get_array()) {
        const json::value* item = &each;
        const json::value* type = field_of(each, "type");
        const json::value* id = field_of(each, "id");
        if (type != nullptr && *type == "item_reference" && id != nullptr && id->is_string() &&
            item_of) {
            const json::value* found = item_of(std::string(id->get_string()));
            if (found != nullptr) item = found;
            if (budget != nullptr) budget->charge_bytes(memory_of(*item));
        }
        if (!item->is_object()) continue;
        if (text.size() > 1) text += ',';
        text += to_text(named(item->get_object(), ids));
    }
    return text += ']';
}

std::string joined_items(std::string first, std::string_view second) {
    constexpr std::size_t empty = 2;  // []
    if (second.size() <= empty) return first;
    if (first.size() <= empty) return std::string(second);
    // Both are lists: the bracket at the end of one and that at the start of the other go.
    first.back() = ',';
    return first.append(second.substr(1));
}

std::string said_items_text(const json::object& response) {
    std::string text = "[";
    const json::value* output = response.if_contains("output");
    if (output == nullptr || !output->is_array()) return "[]";
    for (const json::value& each : output->get_array()) {
        if (text.size() > 1) text += ',';
        text += to_text(each);
    }
    return text += ']';
}

result<std::string> items_text_of(std::span<const std::shared_ptr<const kept_response>> chain) {
    std::string text = "[]";
    for (const auto& kept : chain) {
        auto said = read_body(*kept);
        if (!said) return said.error();
        text = joined_items(std::move(text), kept->input);
        text = joined_items(std::move(text), said_items_text(said->get_object()));
    }
    return text;
}

std::size_t memory_of(const json::value& value) {
    constexpr std::size_t of_value = 96;  // with its place in a list, or with its key
    std::size_t bytes = 0;
    std::vector<const json::value*> left{&value};
    while (!left.empty()) {
        const json::value& one = *left.back();
        left.pop_back();
        bytes += of_value;
        if (one.is_string()) bytes += one.get_string().size();
        if (one.is_array())
            for (const json::value& each : one.get_array()) left.push_back(&each);
        if (!one.is_object()) continue;
        for (const auto& field : one.get_object()) {
            bytes += field.key().size();
            left.push_back(&field.value());
        }
    }
    return bytes;
}

result<void> read_items(const kept_response& kept, const item_reader& read,
                        storage::work_budget* budget) {
    // In a block, so that the input is freed, and its charge given back, before the body is parsed.
    {
        const auto charged = charge_for(kept.input, budget);
        const auto asked = read_list(kept, kept.input);
        if (!asked) return asked.error();
        for (const json::value& each : asked->get_array()) read(each);
    }
    const auto charged = charge_for(kept.body, budget);
    const auto said = read_body(kept);
    if (!said) return said.error();
    for (const json::value& each : said->at("output").get_array()) read(each);
    return {};
}

result<json::array> items_of(std::span<const std::shared_ptr<const kept_response>> chain) {
    json::array items;
    for (const auto& kept : chain) {
        const auto done =
            read_items(*kept, [&](const json::value& each) { items.push_back(each); });
        if (!done) return done.error();
    }
    return items;
}

result<std::vector<std::string>> item_ids(const kept_response& kept) {
    std::vector<std::string> ids;
    const auto done = read_items(kept, [&](const json::value& each) {
        if (const json::value* id = referable_id(each)) ids.emplace_back(id->get_string());
    });
    if (!done) return done.error();
    return ids;
}

const json::value* item_finder::find(const kept_response& kept, const std::string& id) {
    if (const json::value* said = find_in(said_, kept, kept.body, id)) return said;
    return find_in(asked_, kept, kept.input, id);
}

/// Finds the item `id` in `text`, the input or body of `kept`. `list`: keeps the parsed text of the
/// response that was searched last. Returns: null where there is none.
const json::value* item_finder::find_in(item_list& list, const kept_response& kept,
                                        const std::string& text, const std::string& id) {
    if (list.response_id != kept.id) {
        list.items.clear();
        list.whole = nullptr;
        list.charged.reset();
        // Also set where the text cannot be read, so that it is not parsed again for each
        // reference.
        list.response_id = kept.id;
        if (budget_ != nullptr) {
            budget_->charge_steps(text.size() / parsed_bytes_a_step + 1);
            list.charged.emplace(*budget_, parsing_bytes(text));
        }
        auto read = parse_json(text, json_limits{});
        if (read) list.whole = std::move(*read);
        const json::value* output = field_of(list.whole, "output");
        const json::value& items = output == nullptr ? list.whole : *output;
        // What cannot be read has no items, and is not parsed a second time.
        if (!items.is_array()) return nullptr;
        for (const json::value& each : items.get_array())
            if (const json::value* own = referable_id(each); own)
                list.items.emplace(std::string(own->get_string()), &each);
    }
    const auto found = list.items.find(id);
    return found == list.items.end() ? nullptr : found->second;
}

result<void> check_has_ended(const kept_response& kept) {
    auto body = parse_json(kept.body, json_limits{});
    const json::value* status = body ? field_of(*body, "status") : nullptr;
    if (status == nullptr || !status->is_string()) return unreadable("has no status");
    const auto& word = status->get_string();
    if (word != "queued" && word != "in_progress") return {};
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

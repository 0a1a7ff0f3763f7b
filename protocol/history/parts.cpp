// SPDX-License-Identifier: Apache-2.0
#include "protocol/history/parts.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/reply_parts.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol {

namespace json = boost::json;

namespace {

/// Returns: the first 64 bytes of a name at most; no UTF-8 character is divided.
std::string_view cut_name(std::string_view name) {
    if (name.size() <= left_out_names::name_bytes_max) return name;
    std::size_t end = left_out_names::name_bytes_max;
    while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
    return name.substr(0, end);
}

/// Members of an item that identify it and are not its content.
constexpr std::array<std::string_view, 10> names_of_items{
    "id",           "type",          "status", "call_id", "tool_use_id", "approval_request_id",
    "container_id", "cache_control", "caller", "object"};

// A shorter text without spaces may be a path or a name that the model can use.
constexpr std::size_t opaque_bytes_min = 256;

/// Whether a model could not read the value: sealed text, signatures, bytes in base 64.
bool is_opaque(std::string_view key, const json::value& value) {
    if (key.starts_with("encrypted_") || key == "signature" || key == "logprobs") return true;
    const json::string* text = value.if_string();
    if (text == nullptr) return value.is_null();
    const std::string_view shown(text->data(), text->size());
    if (shown.starts_with("data:")) return true;
    return shown.size() >= opaque_bytes_min && std::ranges::all_of(shown, [](char c) {
               return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '+' || c == '/' || c == '=' || c == '-' || c == '_';
           });
}

/// Returns: the value without opaque members, at any depth. The recursion is as deep as the parser
/// lets a body nest.
json::value readable(const json::value& value) {
    if (const json::array* list = value.if_array()) {
        json::array made;
        for (const json::value& each : *list)
            if (!is_opaque({}, each)) made.push_back(readable(each));
        return made;
    }
    const json::object* object = value.if_object();
    if (object == nullptr) return value;
    json::object made;
    for (const auto& [key, member] : *object)
        if (!is_opaque({key.data(), key.size()}, member)) made.emplace(key, readable(member));
    return made;
}

/// Returns: the members of an item that are its content and can be read.
json::object readable_members_of(const json::value& item) {
    json::object made;
    const json::object* object = item.if_object();
    if (object == nullptr) return made;
    for (const auto& [key, member] : *object) {
        const std::string_view name(key.data(), key.size());
        const bool is_name = std::ranges::find(names_of_items, name) != names_of_items.end();
        if (!is_name && !is_opaque(name, member)) made.emplace(key, readable(member));
    }
    return made;
}

}  // namespace

void left_out_names::add(std::string_view name) {
    const std::string_view kept = cut_name(name);
    // More names than that are dropped: the client has seen enough to know.
    if (names_.size() == names_max || std::ranges::find(names_, kept) != names_.end()) return;
    names_.emplace_back(kept);
}

std::size_t newest_position(std::size_t count,
                            const std::function<message_kind(std::size_t)>& kind_at) {
    if (count == 0) return 0;
    std::size_t newest = count - 1;
    if (newest > 0 && kind_at(newest) == message_kind::of_assistant) --newest;
    while (newest > 0 && kind_at(newest) == message_kind::of_system) --newest;
    // After a complete answer only system texts follow: the newest message begins after it.
    if (kind_at(newest) == message_kind::of_assistant) return std::min(newest + 1, count - 1);
    const auto is_result = [&](std::size_t index) {
        return kind_at(index) == message_kind::result;
    };
    while (newest > 0 && is_result(newest) && is_result(newest - 1)) --newest;
    return newest;
}

std::string_view medium_of(std::string_view type) noexcept {
    struct known {
        std::string_view type, medium;
    };
    constexpr std::array<known, 11> all{{{"image", "image"},
                                         {"image_url", "image"},
                                         {"input_image", "image"},
                                         {"output_image", "image"},
                                         {"computer_screenshot", "image"},
                                         {"audio", "audio"},
                                         {"input_audio", "audio"},
                                         {"output_audio", "audio"},
                                         {"video_url", "video"},
                                         {"file", "file"},
                                         {"input_file", "file"}}};
    for (const known& each : all)
        if (each.type == type) return each.medium;
    return {};
}

std::string left_out_line(std::string_view medium) {
    return "[" + std::string(medium) + " left out]";
}

std::string read_medium(const json_cursor& part, std::string_view medium,
                        const history_position& position) {
    if (position.is_newest) {
        if (medium == "image")
            part.fail(errc::unsupported, "Could not process image: this model takes text only");
        else if (medium == "PDF")
            part.fail(errc::unsupported,
                      "The PDF specified was not valid: this model takes text only");
        else
            part.fail(errc::unsupported, "only text is supported here, found a part of type " +
                                             quoted(string_at(part, "type")));
    }
    return left_out_line(medium);
}

std::string readable_members(const json::value& item) { return to_text(readable_members_of(item)); }

std::string shown_in_a_line(std::string_view type, const json::value& item) {
    std::string line = "[" + std::string(cut_name(type));
    json::object members = readable_members_of(item);
    if (!members.empty()) line += ": " + to_text(members);
    return line + "]";
}

std::string read_call_name(const json_cursor& call, std::size_t bytes_max) {
    auto name = call.find("name");
    // A history may have a call without a name, and a template needs one.
    if (name && name->value().is_string() && name->as_string().empty()) return "unknown";
    return bounded_at(call, "name", bytes_max);
}

namespace {

/// Returns: JSON text without white space between its parts. Numbers and escapes keep their
/// spelling, which parsing and writing it again would not guarantee.
std::string compacted(std::string_view json) {
    std::string out;
    bool in_string = false, is_escaped = false;
    for (const char c : json) {
        if (in_string || !is_white_space({&c, 1})) out += c;
        if (c == '"' && !is_escaped) in_string = !in_string;
        is_escaped = in_string && c == '\\' && !is_escaped;
    }
    return out;
}

}  // namespace

std::string read_arguments(const json_cursor& field, const json_limits& limits) {
    const json::value& value = field.value();
    if (!value.is_string()) return value.is_null() ? "{}" : to_text(value);
    const std::string_view text = field.as_string();
    if (is_white_space(text)) return "{}";
    auto parsed = parse_json(text, limits);
    return parsed && parsed->is_object() ? compacted(text) : std::string(text);
}

}  // namespace semantic::protocol

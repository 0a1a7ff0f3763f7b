// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/fields.hpp"

#include <algorithm>
#include <charconv>

namespace semantic::protocol {

std::string quoted(std::string_view text) {
    constexpr std::size_t shown_bytes_max = 64;
    std::size_t shown = std::min(text.size(), shown_bytes_max);
    // Not through the middle of a character.
    while (shown < text.size() && shown > 0 && (text[shown] & 0xC0) == 0x80) --shown;
    std::string out = "\"";
    out.append(text.substr(0, shown)).append(shown < text.size() ? "…\"" : "\"");
    return out;
}

std::string parse_bounded(const json_cursor& field, std::size_t bytes_max) {
    const std::string_view text = field.as_string();
    if (text.empty()) field.fail(errc::bad_value, "must not be empty");
    if (text.size() <= bytes_max) return std::string(text);
    field.fail(errc::bad_value, "may have " + std::to_string(bytes_max) + " bytes, has " +
                                    std::to_string(text.size()));
    return {};
}

std::size_t parse_count(const json_cursor& field, std::size_t count_max) {
    const std::size_t count = field.as_array().size();
    if (count > count_max)
        field.fail(errc::bad_value, "may have " + std::to_string(count_max) + " items, has " +
                                        std::to_string(count));
    // None after any complaint, so that callers need not look before their loop.
    return field.ok() ? count : 0;
}

std::string string_at(const json_cursor& object, std::string_view key) {
    return std::string(object.at(key).as_string());
}

std::string bounded_at(const json_cursor& object, std::string_view key, std::size_t bytes_max) {
    return parse_bounded(object.at(key), bytes_max);
}

bool flag_at(const json_cursor& object, std::string_view key, bool otherwise) {
    auto field = object.find(key);
    return field ? field->as_bool() : otherwise;
}

failure bad_parameter(const char* name, std::string_view sentence) {
    return {errc::bad_value, std::string(name).append(": ").append(sentence), name};
}

result<std::size_t> parse_page_limit(const std::optional<std::string>& text,
                                     std::size_t otherwise) {
    constexpr std::size_t limit_max = 1'000;
    if (!text) return otherwise;
    std::size_t limit = 0;
    const char* last = text->data() + text->size();
    auto [end, fault] = std::from_chars(text->data(), last, limit);
    if (fault != std::errc() || end != last || limit < 1 || limit > limit_max)
        return bad_parameter("limit",
                             "must be a whole number between 1 and " + std::to_string(limit_max));
    return limit;
}

std::string without_billing_line(std::string system) {
    constexpr std::string_view header = "x-anthropic-billing-header:";
    if (!system.starts_with(header)) return system;
    const std::size_t end = system.find('\n');
    return end == std::string::npos ? std::string() : system.substr(end + 1);
}

bool is_tool_name(std::string_view name) noexcept {
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
    });
}

}  // namespace semantic::protocol

// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/named_model.hpp"

#include "protocol/wire/json.hpp"

namespace semantic::protocol {

namespace {

/// Returns: one past the string's closing quote; npos where it does not end. Requires: a quote at
/// `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
    while ((at = text.find_first_of("\"\\", at + 1)) != text.npos) {
        if (text[at] == '"') return at + 1;
        ++at;  // whatever is escaped
    }
    return text.npos;
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
    return text.find_first_not_of(" \t\r\n", at);
}

/// Returns: the string of JSON whose opening quote is at `at`.
std::optional<std::string> string_at(std::string_view text, std::size_t at) {
    const std::size_t end = end_of_string(text, at);
    if (end == text.npos) return std::nullopt;
    const auto value = parse_json(text.substr(at, end - at), {});
    if (!value || !value->is_string()) return std::nullopt;
    return std::string(value->get_string());
}

}  // namespace

std::optional<std::string> named_model(std::string_view body) {
    int depth = 0;
    for (std::size_t at = body.find_first_of("{[\""); at != body.npos;
         at = body.find_first_of("{}[]\"", at)) {
        if (body[at] != '"') {
            depth += body[at] == '{' || body[at] == '[' ? 1 : -1;
            ++at;
            continue;
        }
        const std::size_t end = end_of_string(body, at);
        if (end == body.npos) return std::nullopt;
        const bool is_named = depth == 1 && body.substr(at, end - at) == "\"model\"";
        at = end;
        if (!is_named) continue;
        const std::size_t colon = skip_blanks(body, end);
        if (colon == body.npos || body[colon] != ':') continue;  // it is a value
        const std::size_t value = skip_blanks(body, colon + 1);
        // The parser of the whole body complains of it.
        if (value == body.npos || body[value] != '"') return std::nullopt;
        return string_at(body, value);
    }
    return std::nullopt;
}

}  // namespace semantic::protocol

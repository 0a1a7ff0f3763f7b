// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/written_arguments.hpp"

#include <algorithm>

#include "engine/text/output/calls/json_stream.hpp"
#include "engine/text/output/json_text.hpp"

namespace semantic::engine {

namespace {

/// The begin of a JSON object in compact form, with what is needed to complete it.
struct reading {
    std::string out;
    std::string open;        // brackets of `out` that are not closed
    std::size_t sure = 0;    // end in `out` of the last value or opening bracket
    bool in_string = false;  // the text ended inside of a string
    bool is_json = true;     // false: the text is no begin of an object
};

/// Reads as much of an object as `text` has.
reading read_object(std::string_view text) {
    reading made;
    json_stream stream;
    const auto take = [&](char c) {
        const std::size_t depth = stream.depth();
        stream.push(c, made.out);
        if (stream.depth() > depth) made.open += c;
        if (stream.depth() < depth) made.open.pop_back();
        if (stream.depth() != depth || stream.awaits_end()) made.sure = made.out.size();
        made.is_json = stream.at() != json_stream::state::malformed;
    };
    for (const char c : text) {
        const bool is_outside = stream.depth() == 0 && stream.at() == json_stream::state::open;
        if (is_outside && c != '{' && !is_json_space(c)) made.is_json = false;
        // json_stream writes a number when the character after it has come. A blank in front of the
        // comma ends it, so that `sure` is set before the comma.
        if (made.is_json && c == ',' && !stream.in_string()) take(' ');
        if (made.is_json) take(c);
        if (!made.is_json) return made;
    }
    made.in_string = stream.in_string();
    if (made.in_string || made.open.empty()) return made;
    // A number at the end counts as complete, which a blank shows. The begin of a word such as
    // "tru" does not: the blank makes it malformed, and `made` stays as it was.
    json_stream ended = stream;
    std::string more = made.out;
    if (ended.push(' ', more) == json_stream::state::malformed || !ended.awaits_end()) return made;
    made.out = std::move(more);
    made.sure = made.out.size();
    return made;
}

bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Whether the text ends with a backslash that begins an escape, and is not one itself.
bool ends_in_backslash(std::string_view text) {
    const std::size_t last = text.find_last_not_of('\\');
    const std::size_t count = text.size() - (last == std::string_view::npos ? 0 : last + 1);
    return count % 2 == 1;
}

/// The position of an escape \uXXXX with at most `digits_max` digits so far that ends `text`; npos
/// when there is none.
std::size_t unicode_escape_at_end(std::string_view text, std::size_t digits_max) {
    std::size_t digits = 0;
    while (digits < digits_max && digits < text.size() && is_hex(text[text.size() - 1 - digits]))
        ++digits;
    const std::string_view before = text.substr(0, text.size() - digits);
    if (!before.ends_with('u') || !ends_in_backslash(before.substr(0, before.size() - 1)))
        return std::string_view::npos;
    return before.size() - 2;
}

/// Whether the escape is the first of the two that encode a character beyond U+FFFF.
bool is_first_half(std::string_view escape) {
    return escape.size() == 6 && (escape[2] == 'd' || escape[2] == 'D') &&
           std::string_view("89abAB").find(escape[3]) != std::string_view::npos;
}

/// `text`, which ends inside of a JSON string, without an escape at its end that is incomplete, or
/// that is only the first half of a character.
std::string_view without_begun_escape(std::string_view text) {
    if (const std::size_t at = unicode_escape_at_end(text, 3); at != std::string_view::npos)
        text = text.substr(0, at);
    if (ends_in_backslash(text)) text.remove_suffix(1);
    const std::size_t at = unicode_escape_at_end(text, 4);
    if (at != std::string_view::npos && is_first_half(text.substr(at))) text = text.substr(0, at);
    return text;
}

}  // namespace

std::optional<std::string> completed_object(std::string_view text) {
    reading made = read_object(text);
    if (made.is_json && made.in_string) {
        reading ended = read_object(std::string(without_begun_escape(text)) + '"');
        if (ended.is_json) made = std::move(ended);
    }
    if (!made.is_json || made.sure == 0) return std::nullopt;
    made.out.resize(made.sure);
    for (auto bracket = made.open.rbegin(); bracket != made.open.rend(); ++bracket)
        made.out += *bracket == '{' ? '}' : ']';
    return std::move(made.out);
}

std::string object_of_arguments(std::string_view text) {
    if (auto object = completed_object(text)) return *std::move(object);
    const auto is_space = [](char c) { return is_json_space(c); };
    const auto first = std::ranges::find_if_not(text, is_space);
    const auto last = std::ranges::find_if_not(text.rbegin(), text.rend(), is_space).base();
    if (first >= last || std::string_view(first, last) == "null") return "{}";
    return "{" + quoted(raw_arguments_name) + ":" + quoted(text) + "}";
}

}  // namespace semantic::engine

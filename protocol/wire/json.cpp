// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/json.hpp"

#include <boost/json.hpp>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/types/exact_json.hpp"
#include "storage/types/hex.hpp"

namespace semantic::protocol {

namespace json = boost::json;

namespace {

void append_text(std::string& out, const json::value& value);

void append_quoted(std::string& out, json::string_view text) { out += json::serialize(text); }

/// Appends the shortest decimal form that reads back as the same number.
void append_number(std::string& out, double number) {
    char digits[32];
    auto [end, fault] = std::to_chars(digits, digits + sizeof digits, number);
    std::string_view text(digits, static_cast<std::size_t>(end - digits));
    out += text;
    // 1.0 is written with its fraction, since a schema may distinguish it from 1.
    if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_object(std::string& out, const json::object& object) {
    out += '{';
    bool is_first = true;
    for (const auto& field : object) {
        if (!is_first) out += ',';
        is_first = false;
        append_quoted(out, field.key());
        out += ':';
        append_text(out, field.value());
    }
    out += '}';
}

void append_array(std::string& out, const json::array& array) {
    out += '[';
    bool is_first = true;
    for (const json::value& item : array) {
        if (!is_first) out += ',';
        is_first = false;
        append_text(out, item);
    }
    out += ']';
}

/// Appends any value as compact JSON; a number that is kept as a string gets no quotes.
void append_text(std::string& out, const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            out += "null";
            return;
        case json::kind::bool_:
            out += value.get_bool() ? "true" : "false";
            return;
        case json::kind::int64:
            out += std::to_string(value.get_int64());
            return;
        case json::kind::uint64:
            out += std::to_string(value.get_uint64());
            return;
        case json::kind::double_:
            append_number(out, value.get_double());
            return;
        case json::kind::string:
            if (const auto number = exact_number(value))
                out += *number;
            else
                append_quoted(out, value.get_string());
            return;
        case json::kind::array:
            append_array(out, value.get_array());
            return;
        case json::kind::object:
            append_object(out, value.get_object());
            return;
    }
}

/// Returns: a number for a message, without a fraction ".0".
std::string number_text(double number) {
    std::string text;
    append_number(text, number);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
}

}  // namespace

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// Returns: the 16 bits of an escape "\uXXXX" at `at`; nothing when there is none.
std::optional<std::uint64_t> utf16_escape(std::string_view text, std::size_t at) {
    constexpr std::size_t length = 6;
    if (at + length > text.size() || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
    return storage::number_of_hex(text.substr(at + 2, 4));
}

/// Returns: the text with each escaped half of a UTF-16 pair that lacks its other half replaced by
/// \ufffd, which has the same length. Outside of strings a backslash is an error before and after.
std::string without_lone_surrogates(std::string text) {
    auto is_first = [](std::uint64_t unit) { return unit >= 0xD800 && unit < 0xDC00; };
    auto is_second = [](std::uint64_t unit) { return unit >= 0xDC00 && unit < 0xE000; };
    for (std::size_t i = text.find('\\'); i < text.size(); i = text.find('\\', i)) {
        auto unit = utf16_escape(text, i);
        if (!unit) {
            i += 2;
            continue;
        }
        auto next = utf16_escape(text, i + 6);
        const bool is_pair = is_first(*unit) && next && is_second(*next);
        if (!is_pair && (is_first(*unit) || is_second(*unit))) text.replace(i + 2, 4, "fffd");
        i += is_pair ? 12 : 6;
    }
    return text;
}

engine::exact_json parse_text(std::string_view text, const json_limits& limits) {
    return engine::read_exact_json(text, {limits.depth_max, limits.values_max});
}

}  // namespace

result<json::value> parse_json(std::string_view text, const json_limits& limits) {
    if (text.size() > limits.bytes_max)
        return failure{errc::body_too_large,
                       "the body has " + std::to_string(text.size()) + " bytes, at most " +
                           std::to_string(limits.bytes_max) + " are accepted"};
    const std::size_t skipped = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    text.remove_prefix(skipped);
    engine::exact_json done = parse_text(text, limits);
    // Boost.JSON only says that something is wrong. So the text is mended and parsed again for bad
    // bodies only.
    if (done.ec && !done.has_too_many_values)
        if (std::string mended = without_lone_surrogates(std::string(text)); mended != text)
            done = parse_text(mended, limits);
    if (!done.ec) return std::move(done.value);
    if (done.has_too_many_values)
        return failure{errc::bad_value, "the body has more than " +
                                            std::to_string(limits.values_max) + " JSON values"};
    if (text.empty())
        return failure{errc::malformed_json, "the body is empty; a JSON object is expected"};
    std::string why = done.ec == json::error::too_deep
                          ? "nested deeper than " + std::to_string(limits.depth_max) + " levels"
                          : done.ec.message();
    return failure{errc::malformed_json, "the body is not valid JSON: " + why + " at byte " +
                                             std::to_string(done.used + skipped)};
}

std::string to_text(const json::value& value) {
    std::string out;
    append_text(out, value);
    return out;
}

std::optional<std::string_view> exact_number(const json::value& value) noexcept {
    return engine::exact_number(value);
}

const char* kind_name(const json::value& value) noexcept {
    if (exact_number(value)) return "a number";
    switch (value.kind()) {
        case json::kind::null:
            return "null";
        case json::kind::bool_:
            return "a boolean";
        case json::kind::int64:
        case json::kind::uint64:
        case json::kind::double_:
            return "a number";
        case json::kind::string:
            return "a string";
        case json::kind::array:
            return "an array";
        case json::kind::object:
            return "an object";
    }
    return "an unknown value";
}

namespace {

std::string join(const std::string& path, std::string_view key) {
    std::string joined = path;
    if (!joined.empty()) joined += '.';
    return joined.append(key);
}

// What a cursor leads to, or returns, where the body has no such thing.
const json::value nothing;
const json::object no_fields;
const json::array no_items;

}  // namespace

void json_cursor::fail(errc code, std::string_view sentence, std::string_view error_code) const {
    // The first complaint is the one that the client sees.
    if (!ok()) return;
    std::string message = path_.empty() ? "the body" : path_;
    message.append(": ").append(sentence);
    *complaint_ = failure{code, std::move(message), path_, std::string(error_code)};
}

void json_cursor::wrong_kind(std::string_view expected) const {
    std::string sentence = "expected ";
    fail(errc::bad_value, sentence.append(expected).append(", found ").append(kind_name(*value_)));
}

json_cursor json_cursor::place(std::string_view key) const {
    const json::object* object = value_->if_object();
    const json::value* field = object ? object->if_contains(key) : nullptr;
    return json_cursor(field ? *field : nothing, join(path_, key), *complaint_);
}

json_cursor json_cursor::at(std::string_view key) const {
    const json_cursor found = place(key);
    if (!as_object().contains(key)) found.fail(errc::missing_field, "field required");
    return found;
}

std::optional<json_cursor> json_cursor::find(std::string_view key) const {
    const json::object* object = value_->if_object();
    const json::value* field = object ? object->if_contains(key) : nullptr;
    if (!field || field->is_null()) return std::nullopt;
    return json_cursor(*field, join(path_, key), *complaint_);
}

json_cursor json_cursor::item(std::size_t index) const {
    return json_cursor(value_->get_array()[index], join(path_, std::to_string(index)), *complaint_);
}

const json::object& json_cursor::as_object() const {
    if (const json::object* object = value_->if_object()) return *object;
    wrong_kind("an object");
    return no_fields;
}

const json::array& json_cursor::as_array() const {
    if (const json::array* array = value_->if_array()) return *array;
    wrong_kind("an array");
    return no_items;
}

std::string_view json_cursor::as_string() const {
    const json::string* text = value_->if_string();
    if (text != nullptr && !exact_number(*value_)) return {text->data(), text->size()};
    wrong_kind("a string");
    return {};
}

bool json_cursor::as_bool() const {
    if (const bool* flag = value_->if_bool()) return *flag;
    wrong_kind("a boolean");
    return false;
}

std::int64_t json_cursor::as_integer(std::int64_t low, std::int64_t high) const {
    if (const auto exact = exact_number(*value_)) {
        // A whole one is too large for 64 bits; one near 0 is a fraction that no double can hold.
        if (const double near = engine::nearest_double(*exact);
            std::trunc(near) == near && std::abs(near) > 0)
            fail(errc::bad_value, "must be between " + std::to_string(low) + " and " +
                                      std::to_string(high) + ", is " + to_text(*value_));
        else
            fail(errc::bad_value, "expected an integer, found " + to_text(*value_));
        return low;
    }
    const double* real = value_->if_double();
    json::error_code ec;
    if (!value_->is_number()) {
        wrong_kind("an integer");
    } else if (real && std::trunc(*real) != *real) {
        fail(errc::bad_value, "expected an integer, found " + to_text(*value_));
    } else {
        auto number = value_->to_number<std::int64_t>(ec);
        if (!ec && number >= low && number <= high) return number;
        fail(errc::bad_value, "must be between " + std::to_string(low) + " and " +
                                  std::to_string(high) + ", is " + to_text(*value_));
    }
    return low;
}

double json_cursor::as_number(double low, double high) const {
    const auto exact = exact_number(*value_);
    if (!exact && !value_->is_number()) {
        wrong_kind("a number");
        return low;
    }
    const double number = exact ? engine::nearest_double(*exact) : value_->to_number<double>();
    if (number >= low && number <= high) return number;
    fail(errc::bad_value, "must be between " + number_text(low) + " and " + number_text(high) +
                              ", is " + to_text(*value_));
    return low;
}

}  // namespace semantic::protocol

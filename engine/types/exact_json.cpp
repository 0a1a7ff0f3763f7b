// SPDX-License-Identifier: Apache-2.0
#include "engine/types/exact_json.hpp"

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include <charconv>
#include <limits>
#include <string>
#include <utility>

namespace semantic::engine {

namespace json = boost::json;

namespace {

constexpr char exact_number_mark = '\xFF';

/// A decimal number in normal form: 0.DIGITS times 10 to the power of `point`, with digits that
/// neither begin nor end with a zero.
struct decimal {
    std::string digits;
    std::int64_t point = 0;
    bool operator==(const decimal&) const = default;
};

/// The normal form of a number as JSON or std::to_chars() write it, without its sign. Returns:
/// nothing if the exponent is out of range.
std::optional<decimal> decimal_of(std::string_view text) {
    decimal made;
    std::size_t at = text.starts_with('-') ? 1 : 0;
    bool is_behind_point = false;
    for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
        if (text[at] == '.') {
            is_behind_point = true;
            continue;
        }
        const bool leads = made.digits.empty() && text[at] == '0';
        if (!leads) made.digits += text[at];
        if (!is_behind_point && !leads) ++made.point;
        if (is_behind_point && leads) --made.point;
    }
    if (at < text.size()) {
        ++at;
        if (at < text.size() && text[at] == '+') ++at;
        std::int64_t exponent = 0;
        const char* end = text.data() + text.size();
        if (std::from_chars(text.data() + at, end, exponent).ec != std::errc()) return std::nullopt;
        // Far beyond all doubles; so sums with `point` cannot overflow.
        if (exponent < -1'000'000'000 || exponent > 1'000'000'000) return std::nullopt;
        made.point += exponent;
    }
    made.digits.erase(made.digits.find_last_not_of('0') + 1);
    if (made.digits.empty()) made.point = 0;
    return made;
}

/// Whether `number` holds the value of `text` exactly enough: its shortest text has the same value.
bool is_held_by(double number, std::string_view text) {
    char digits[32];
    const auto [end, fault] = std::to_chars(digits, digits + sizeof digits, number);
    const auto wanted = decimal_of(text);
    return wanted && wanted == decimal_of({digits, static_cast<std::size_t>(end - digits)});
}

/// Builds a value from parser events. Boost 1.81's own parser is off by one unit in the last place
/// for about 4 % of decimal numbers, which would show in a re-serialised tool schema; here the
/// number's text decides.
class value_builder {
  public:
    static constexpr std::size_t max_object_size = json::object::max_size();
    static constexpr std::size_t max_array_size = json::array::max_size();
    static constexpr std::size_t max_key_size = json::string::max_size();
    static constexpr std::size_t max_string_size = json::string::max_size();

    value_builder(std::size_t values_max, json::storage_ptr memory)
        : stack_(std::move(memory)), values_left_(values_max) {}

    json::value release() { return stack_.release(); }
    bool has_too_many_values() const noexcept { return too_many_; }

    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }
    bool on_object_begin(json::error_code&) { return true; }
    bool on_array_begin(json::error_code&) { return true; }
    bool on_object_end(std::size_t count, json::error_code& ec) {
        if (!may_add(ec)) return false;
        stack_.push_object(count);
        return true;
    }
    bool on_array_end(std::size_t count, json::error_code& ec) {
        if (!may_add(ec)) return false;
        stack_.push_array(count);
        return true;
    }
    bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
        stack_.push_chars(text);
        return true;
    }
    bool on_key(json::string_view text, std::size_t, json::error_code&) {
        stack_.push_key(text);
        return true;
    }
    bool on_string_part(json::string_view text, std::size_t, json::error_code&) {
        stack_.push_chars(text);
        return true;
    }
    bool on_string(json::string_view text, std::size_t, json::error_code& ec) {
        if (!may_add(ec)) return false;
        stack_.push_string(text);
        return true;
    }
    bool on_number_part(json::string_view text, json::error_code&) {
        number_.append(text.data(), text.size());
        return true;
    }
    bool on_int64(std::int64_t number, json::string_view, json::error_code& ec) {
        if (!may_add(ec)) return false;
        number_.clear();
        stack_.push_int64(number);
        return true;
    }
    bool on_uint64(std::uint64_t number, json::string_view, json::error_code& ec) {
        if (!may_add(ec)) return false;
        number_.clear();
        stack_.push_uint64(number);
        return true;
    }
    // An integer comes here only beyond 64 bits, and a double would not keep its digits.
    bool on_double(double, json::string_view text, json::error_code& ec) {
        if (!may_add(ec)) return false;
        number_.append(text.data(), text.size());
        double number = 0;
        const char* last = number_.data() + number_.size();
        const bool is_held = std::from_chars(number_.data(), last, number).ec == std::errc();
        const bool is_integer = number_.find_first_of(".eE") == std::string::npos;
        if (is_held && !is_integer && is_held_by(number, number_))
            stack_.push_double(number);
        else
            stack_.push_string(exact_number_mark + number_);
        number_.clear();
        return true;
    }
    bool on_bool(bool flag, json::error_code& ec) {
        if (!may_add(ec)) return false;
        stack_.push_bool(flag);
        return true;
    }
    bool on_null(json::error_code& ec) {
        if (!may_add(ec)) return false;
        stack_.push_null();
        return true;
    }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }

  private:
    // Counts one more value. Returns: false, with `ec` set, if that is too many.
    bool may_add(json::error_code& ec) {
        if (values_left_ == 0) {
            too_many_ = true;
            ec = json::error::array_too_large;
            return false;
        }
        --values_left_;
        return true;
    }

    json::value_stack stack_;
    std::string number_;       // the spelling so far of a number that came in parts
    std::size_t values_left_;  // that may still be added
    bool too_many_ = false;
};

}  // namespace

exact_json read_exact_json(std::string_view text, const exact_json_limits& limits,
                           json::storage_ptr memory) {
    json::parse_options options;
    options.max_depth = limits.depth_max;
    json::basic_parser<value_builder> parser(options, limits.values_max, std::move(memory));
    exact_json done;
    done.used = parser.write_some(false, text.data(), text.size(), done.ec);
    if (!done.ec && done.used < text.size()) done.ec = json::error::extra_data;
    if (!done.ec) done.value = parser.handler().release();
    done.has_too_many_values = parser.handler().has_too_many_values();
    return done;
}

std::optional<std::string_view> exact_number(const json::value& value) {
    const json::string* text = value.if_string();
    if (text == nullptr || text->empty() || text->front() != exact_number_mark) return std::nullopt;
    return std::string_view(text->data() + 1, text->size() - 1);
}

double nearest_double(std::string_view number) {
    double nearest = 0;
    const char* end = number.data() + number.size();
    if (std::from_chars(number.data(), end, nearest).ec == std::errc()) return nearest;
    // Out of range: so small that 0 is nearest, or beyond all doubles.
    const auto magnitude = decimal_of(number);
    if (magnitude && magnitude->point <= 0) return 0;
    return number.starts_with('-') ? std::numeric_limits<double>::lowest()
                                   : std::numeric_limits<double>::max();
}

bool is_whole(std::string_view number) {
    const auto exact = decimal_of(number);
    return exact && (exact->digits.empty() ||
                     exact->point >= static_cast<std::int64_t>(exact->digits.size()));
}

}  // namespace semantic::engine

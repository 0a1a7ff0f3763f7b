// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/builtins/number_format.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/text/output/float_text.hpp"

namespace semantic::engine::jinja {

namespace {

/// Puts the sign in front of the digits. `sign`: what a positive number gets, where '-' means
/// nothing.
std::string signed_as(bool is_negative, std::string digits, char sign) {
    if (is_negative) return "-" + digits;
    return sign == '-' ? digits : sign + digits;
}

/// Puts `separator` between groups of `size` digits: three in decimal numbers, four in others. Only
/// digits before a point or exponent are grouped. 0: no separator.
std::string grouped(const std::string& digits, char separator, std::size_t size) {
    if (separator == 0) return digits;
    std::size_t end = 0;
    while (end < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[end])) != 0) {
        ++end;
    }
    // The loop took the e of an exponent for a hexadecimal digit.
    if (size == 3) end = std::min(end, digits.find_first_of("eE"));
    std::string out;
    for (std::size_t i = 0; i < end; ++i) {
        if (i > 0 && (end - i) % size == 0) out += separator;
        out += digits[i];
    }
    return out + digits.substr(end);
}

/// Prints a float by printf()'s `type`. `alternate`: with the flag "#".
std::string printed(double number, std::int64_t precision, char type, bool alternate) {
    const std::string format =
        std::string("%") + (alternate ? "#" : "") + ".*" + static_cast<char>(type);
    const int digits = static_cast<int>(precision);
    // Only measures the text.
    const int size = std::snprintf(nullptr, 0, format.c_str(), digits, number);
    std::string out(static_cast<std::size_t>(size) + 1, '\0');
    std::snprintf(out.data(), out.size(), format.c_str(), digits, number);
    // The zero byte that snprintf() writes last.
    out.pop_back();
    return out;
}

/// Prints a float as Python does where the format has no type: without a precision (negative) in
/// the shortest form, else as type g, but never as a whole number without a point.
std::string plain_real(double number, std::int64_t precision) {
    if (precision < 0) return float_text(number);
    // As in Python a precision of 0 counts as 1.
    std::string out = printed(number, std::max<std::int64_t>(precision, 1), 'g', false);
    const auto power = out.find('e');
    if (out.find('.') == out.npos && power == out.npos) out += ".0";
    // Python writes an exponent already when all digits of the precision are before the point,
    // where printf's g does not yet.
    const double size = std::abs(number);
    const bool is_long = size >= std::pow(10.0, static_cast<double>(precision - 1)) && size >= 1;
    if (is_long && power == out.npos && precision > 0 && number != 0) {
        out = printed(number, std::max<std::int64_t>(precision, 1) - 1, 'e', false);
        const auto exponent = out.find('e');
        std::string head = out.substr(0, exponent);
        if (head.find('.') != head.npos) {
            head.erase(head.find_last_not_of('0') + 1);
            if (head.ends_with('.')) head.pop_back();
        }
        out = head + out.substr(exponent);
    }
    return out;
}

}  // namespace

std::string integer_digits(std::int64_t number, const format_spec& spec) {
    const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(type)));
    const int base = lower == 'x' ? 16 : lower == 'o' ? 8 : lower == 'b' ? 2 : 10;
    // The number's magnitude; that of the least integer does not fit a signed one.
    std::uint64_t size = static_cast<std::uint64_t>(number);
    if (number < 0) size = ~size + 1;
    char buffer[72];  // 64 binary digits are the longest
    char* const end = std::to_chars(buffer, buffer + sizeof buffer, size, base).ptr;
    std::string digits(+buffer, end);
    if (static_cast<std::int64_t>(digits.size()) < spec.precision) {
        digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
    }
    digits = grouped(digits, spec.group, base == 10 ? 3 : 4);
    if (spec.alternate && base != 10) digits = std::string("0") + lower + digits;
    if (type == 'X') {
        std::transform(digits.begin(), digits.end(), digits.begin(),
                       [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    }
    return signed_as(number < 0, digits, spec.sign);
}

std::string real_digits(double number, const format_spec& spec) {
    // A NaN has no sign in Python.
    const bool is_negative = std::signbit(number) && !std::isnan(number);
    const double size = std::abs(number);
    std::string digits;
    if (!std::isfinite(number)) {
        digits = std::isnan(number) ? "nan" : "inf";
        if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') {
            digits = digits == "nan" ? "NAN" : "INF";
        }
        if (spec.type == '%') digits += '%';
    } else if (spec.type == '%') {
        digits = printed(size * 100, spec.precision < 0 ? 6 : spec.precision, 'f', false) + "%";
    } else if (spec.type == 0) {
        digits = plain_real(size, spec.precision);
    } else {
        const char type = spec.type == 'n' ? 'g' : spec.type;
        digits = printed(size, spec.precision < 0 ? 6 : spec.precision, type, spec.alternate);
    }
    return signed_as(is_negative, grouped(digits, spec.group, 3), spec.sign);
}

marked_text filled(const marked_text& text, const format_spec& spec, bool is_number, budget& left) {
    const auto length = static_cast<std::int64_t>(count_characters(text.bytes()));
    const std::int64_t margin = spec.width - length;
    if (margin <= 0) return text;
    left.spend_text(static_cast<std::size_t>(spec.width) * spec.fill.size());
    const char align = spec.align != 0 ? spec.align : is_number ? '>' : '<';
    std::int64_t before = margin;
    if (align == '<') before = 0;
    if (align == '^') before = margin / 2;
    // What comes before padding by '=': the sign, and a prefix such as "0x".
    std::size_t head = 0;
    constexpr std::string_view signs = "+- ";
    if (align == '=' && !text.empty() && signs.find(text.bytes()[0]) != signs.npos) head = 1;
    if (align == '=' && spec.alternate && text.size() > head + 1 && text.bytes()[head] == '0' &&
        std::isalpha(static_cast<unsigned char>(text.bytes()[head + 1])) != 0) {
        head += 2;
    }
    marked_text out = text.part(0, head);
    for (std::int64_t i = 0; i < before; ++i) out.append(spec.fill);
    out.append(text, head, text.size());
    for (std::int64_t i = before; i < margin; ++i) out.append(spec.fill);
    return out;
}

}  // namespace semantic::engine::jinja

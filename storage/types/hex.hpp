// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes and numbers as lower-case hex digits, and read again in either case. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::storage {

inline constexpr std::string_view hex_digits = "0123456789abcdef";

/// The low four bits.
inline char hex_digit(std::uint64_t value) { return hex_digits[value & 15]; }

/// Two digits.
inline void append_hex(std::string& out, char byte) {
    out += hex_digit(static_cast<unsigned char>(byte) >> 4);
    out += hex_digit(static_cast<unsigned char>(byte));
}

/// Sixteen digits.
inline std::string hex_of(std::uint64_t value) {
    std::string text(16, '0');
    for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = hex_digit(value);
    return text;
}

/// The number that hex digits of either case spell, nothing else among them.
/// Returns: nothing where one is no digit, and for none or more than sixteen.
constexpr std::optional<std::uint64_t> number_of_hex(std::string_view digits) {
    if (digits.empty() || digits.size() > 16) return std::nullopt;
    std::uint64_t value = 0;
    for (char digit : digits) {
        const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit | 0x20) : digit;
        const std::size_t found = hex_digits.find(lower);
        if (found == std::string_view::npos) return std::nullopt;
        value = value << 4 | found;
    }
    return value;
}

/// The bytes that hex digits of either case spell, two digits each.
/// Returns: nothing where there is half a byte, or anything but digits.
inline std::optional<std::string> bytes_of_hex(std::string_view digits) {
    if (digits.size() % 2 != 0) return std::nullopt;
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        const auto byte = number_of_hex(digits.substr(i, 2));
        if (!byte) return std::nullopt;
        bytes += static_cast<char>(*byte);
    }
    return bytes;
}

}  // namespace semantic::storage

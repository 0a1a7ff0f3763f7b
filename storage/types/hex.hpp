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

/// Returns: the hex digit of the low four bits.
inline char hex_digit(std::uint64_t value) { return hex_digits[value & 15]; }

/// Appends the two hex digits of a byte.
inline void append_hex(std::string& out, char byte) {
    out += hex_digit(static_cast<unsigned char>(byte) >> 4);
    out += hex_digit(static_cast<unsigned char>(byte));
}

/// Returns: sixteen hex digits.
inline std::string hex_of(std::uint64_t value) {
    std::string text(16, '0');
    for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = hex_digit(value);
    return text;
}

/// Returns: the number that 1 to 16 hex digits of either case spell; nothing for any other text.
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

/// Returns: the bytes that pairs of hex digits of either case spell; nothing where their number is
/// odd or one is no digit.
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

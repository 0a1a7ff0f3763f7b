#pragma once
// Bytes and numbers as lower-case hex digits. Pure.

#include <cstddef>
#include <cstdint>
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

}  // namespace semantic::storage

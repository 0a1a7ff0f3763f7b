// SPDX-License-Identifier: Apache-2.0
#pragma once
// Helpers for UTF-8: invalid bytes, and properties of characters.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "storage/files/utf8.hpp"

namespace semantic::engine::utf8 {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

using storage::utf8::next;
using storage::utf8::step;
using storage::utf8::valid_prefix;

/// Appends `bytes`, with each maximal invalid part replaced by U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);

inline bool is_continuation(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}
/// The first byte of the character that ends at `end`; end - 1 for invalid bytes. Requires: end >
/// 0.
std::size_t start_of_last(std::string_view text, std::size_t end) noexcept;

bool is_space(std::int32_t code) noexcept;  // Unicode White_Space
bool is_word(std::int32_t code) noexcept;   // what \w means in the reference implementations

}  // namespace semantic::engine::utf8

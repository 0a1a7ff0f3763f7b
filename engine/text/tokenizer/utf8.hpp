// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is done with bytes that are not UTF-8, and what characters are.

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

/// Appends `bytes` with every maximal impossible part replaced by U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);

inline bool is_continuation(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}
/// The start of the character that ends at `end` (which is > 0); `end` - 1 for stray bytes.
std::size_t start_of_last(std::string_view text, std::size_t end) noexcept;

bool is_space(std::int32_t code) noexcept;  // Unicode White_Space
bool is_word(std::int32_t code) noexcept;   // what \w means in the reference implementations

}  // namespace semantic::engine::utf8

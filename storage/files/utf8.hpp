// SPDX-License-Identifier: Apache-2.0
#pragma once
// UTF-8 by hand: where characters end. Pure.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace semantic::storage::utf8 {

struct step {
    std::size_t length;  // bytes looked at, at least 1
    std::int32_t code;   // the character, or -1 when the bytes are not one
    bool unfinished;     // not a character, but more bytes could make it one
};
/// Decodes the character at the start of `text`, which is not empty; surrogates and overlong forms
/// are none. Where there is no character, `length` is that of the longest prefix that could have
/// begun one (what a decoder replaces by a single U+FFFD).
step next(std::string_view text) noexcept;

/// Returns: how many bytes at the start of `text` are whole characters.
std::size_t valid_prefix(std::string_view text) noexcept;

/// Whether all of `text` is UTF-8.
inline bool is_valid(std::string_view text) noexcept { return valid_prefix(text) == text.size(); }

}  // namespace semantic::storage::utf8

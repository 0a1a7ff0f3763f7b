#pragma once
// UTF-8 by hand: where characters end, and what is done with bytes that are not UTF-8.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace semantic::engine::utf8 {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

struct step {
    std::size_t length;  // bytes looked at, at least 1
    std::int32_t code;   // the character, or -1 when the bytes are not one
    bool unfinished;     // not a character, but more bytes could make it one
};
/// The character at the start of `text`, which is not empty. When there is none, `length` is the
/// longest prefix that could have begun one (what a decoder replaces by a single U+FFFD).
step next(std::string_view text) noexcept;

/// Bytes at the start of `text` that are whole characters.
std::size_t valid_prefix(std::string_view text) noexcept;

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

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The decoder of tokenizer.json: converts spellings in the vocabulary back to bytes of text.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "storage/types/errc.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine {

/// The byte-level alphabet has a printable character for every byte. Returns: the bytes that
/// `spelling` encodes; nothing if a character is not in the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view spelling);
/// The byte of a spelling such as <0xE2>; nothing for other spellings.
std::optional<char> named_byte(std::string_view spelling);

class token_decoder {
  public:
    /// Errors: incompatible, with the type that is not supported.
    static storage::result<token_decoder> parse(const boost::json::value& json);

    bool byte_level() const noexcept { return byte_level_; }
    /// The bytes of one token on its own.
    std::string bytes(std::string_view spelling) const;
    /// The text of several tokens together.
    std::string decode(const std::vector<std::string_view>& spellings) const;

  private:
    struct replace {
        std::string pattern, replacement;
    };
    struct byte_fallback {};
    struct fuse {};
    struct strip {
        std::string text;
        std::size_t start, stop;
    };
    using step = std::variant<replace, byte_fallback, fuse, strip>;
    using tokens = std::vector<std::string>;

    storage::result<void> add(const boost::json::value& json);
    static void run(const replace& s, tokens& list);
    static void run(const byte_fallback& s, tokens& list);
    static void run(const fuse& s, tokens& list);
    static void run(const strip& s, tokens& list);

    std::vector<step> steps_;  // done in order, unless byte_level_
    bool byte_level_ = false;
};

}  // namespace semantic::engine

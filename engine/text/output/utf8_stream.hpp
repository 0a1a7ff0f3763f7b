// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts the bytes of tokens to whole UTF-8 characters, so that a stream never shows half a
// character.

#include <cstddef>
#include <string>
#include <string_view>

namespace semantic::engine {

class utf8_stream {
  public:
    /// Returns: the characters that `bytes` complete. An invalid byte becomes U+FFFD at once.
    std::string push(std::string_view bytes);
    /// Returns: U+FFFD if an incomplete character is left, otherwise nothing.
    std::string finish();
    /// Bytes of an incomplete character that is not returned yet.
    std::size_t pending_bytes() const { return pending_.size(); }

  private:
    std::string pending_;  // the begin of a character
};

}  // namespace semantic::engine

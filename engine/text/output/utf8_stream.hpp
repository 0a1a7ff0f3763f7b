// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token bytes in, whole UTF-8 characters out: a stream never shows half a character.

#include <cstddef>
#include <string>
#include <string_view>

namespace semantic::engine {

class utf8_stream {
  public:
    /// Returns: the characters completed by `bytes`. An impossible byte becomes U+FFFD at once.
    std::string push(std::string_view bytes);
    /// Returns: U+FFFD when an incomplete character is left, else nothing.
    std::string finish();
    /// Of an incomplete character, that is not shown yet.
    std::size_t pending_bytes() const { return pending_.size(); }

  private:
    std::string pending_;
};

}  // namespace semantic::engine

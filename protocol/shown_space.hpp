// SPDX-License-Identifier: Apache-2.0
#pragma once
// White space that a model writes after a tool call: a client is shown it when text follows, and
// never by itself. Pure.

#include <string>
#include <string_view>
#include <utility>

#include "protocol/reply_parts.hpp"

namespace semantic::protocol {

class shown_space {
  public:
    /// Returns: what is to be shown now: nothing while only white space has come after a call, else
    /// all that was withheld, with `piece`. `is_behind_call`: the last thing shown was a call.
    std::string text(std::string_view piece, bool is_behind_call) {
        held_ += piece;
        if (is_behind_call && is_white_space(piece)) return {};
        return std::exchange(held_, {});
    }
    /// Call when something other than text follows: the white space is never shown.
    void drop() { held_.clear(); }

  private:
    // White space after a call that is not out yet, since nothing else may follow.
    std::string held_;
};

}  // namespace semantic::protocol

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
    /// Returns: what is to be shown now; nothing while only white space came after a call.
    std::string text(std::string_view piece, bool is_behind_call) {
        held_ += piece;
        if (is_behind_call && is_white_space(piece)) return {};
        return std::exchange(held_, {});
    }
    /// Something other than text follows.
    void drop() { held_.clear(); }

  private:
    std::string held_;
};

}  // namespace semantic::protocol

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stop strings that may straddle tokens: text that could be the start of one is held back until
// that is decided.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::engine {

class stop_matcher {
  public:
    /// Empty strings are ignored.
    explicit stop_matcher(std::vector<std::string> stops);

    struct output {
        std::string text;                 // safe to show; nothing of a stop string is ever in it
        std::optional<std::string> stop;  // the stop string that was met; later input is ignored
    };
    /// The earliest match wins; among those that start together, the one that is complete first.
    output push(std::string_view text);
    /// Returns: what was held back, once no more text comes; cut before a stop string that is whole
    /// in it.
    std::string finish();

  private:
    std::vector<std::string> stops_;
    std::string held_;
    bool done_ = false;
};

}  // namespace semantic::engine

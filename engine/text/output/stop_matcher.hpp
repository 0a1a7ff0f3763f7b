// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds stop strings, which may extend over several tokens: text that could be the beginning of one
// is held back until that is decided.

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
    /// Takes in text. Returns: the text that may be shown, and the stop string that was met, if
    /// any: the earliest; of several that start at the same byte the one that is complete first.
    output push(std::string_view text);
    /// Called when no more text comes. Returns: the text that was held back, up to a complete stop
    /// string in it.
    std::string finish();

  private:
    std::vector<std::string> stops_;  // the shortest first
    std::string held_;                // may begin a stop string
    bool done_ = false;               // one was met, or no more text comes
};

}  // namespace semantic::engine

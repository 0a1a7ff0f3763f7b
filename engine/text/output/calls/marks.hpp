// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds incomplete marks at the end of a text. For the output parsers only.

#include <algorithm>
#include <string_view>

namespace semantic::engine {

/// The length of the longest end of `text` that is an incomplete beginning of `mark`; 0: none.
inline std::size_t begun_mark(std::string_view text, std::string_view mark) {
    for (std::size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
        if (mark.starts_with(text.substr(text.size() - length))) return length;
    }
    return 0;
}

}  // namespace semantic::engine

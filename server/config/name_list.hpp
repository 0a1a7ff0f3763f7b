// SPDX-License-Identifier: Apache-2.0
#pragma once
// The names of models in one line of a message. Pure; safe from any thread.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace semantic::server {

constexpr std::size_t names_shown = 12;

/// Returns: "a, b and 3 more"; at most `names_shown` are named.
inline std::string list_names(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), names_shown); ++i)
        text.append(i == 0 ? "" : ", ").append(names[i]);
    if (names.size() > names_shown)
        text += " and " + std::to_string(names.size() - names_shown) + " more";
    return text;
}

}  // namespace semantic::server

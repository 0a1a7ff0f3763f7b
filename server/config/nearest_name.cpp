// SPDX-License-Identifier: Apache-2.0
#include "server/config/nearest_name.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace semantic::server {

namespace {

constexpr std::size_t given_max = 64;  // no option's name is as long

/// The Damerau-Levenshtein distance: how many letters must be inserted, deleted, changed or
/// exchanged with their neighbour to turn `a` into `b`.
std::size_t steps_between(std::string_view a, std::string_view b) {
    // Three rows of the usual table: for this letter of `a`, the one before it, and the one before
    // that.
    std::vector<std::size_t> now(b.size() + 1), before(b.size() + 1), earlier(b.size() + 1);
    std::iota(before.begin(), before.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        now[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            now[j] = std::min({before[j] + 1, now[j - 1] + 1, before[j - 1] + change});
            const bool are_exchanged =
                i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (are_exchanged) now[j] = std::min(now[j], earlier[j - 2] + 1);
        }
        std::swap(earlier, before);
        std::swap(before, now);
    }
    return before[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view given,
                                        std::span<const std::string> names) {
    if (given.empty() || given.size() > given_max) return std::nullopt;
    // A quarter of the letters may differ, one at least.
    std::size_t fewest = std::max<std::size_t>(1, given.size() / 4) + 1;
    std::optional<std::string> nearest;
    for (const std::string& name : names) {
        const std::size_t steps = steps_between(given, name);
        if (steps >= fewest) continue;
        fewest = steps;
        nearest = name;
    }
    return nearest;
}

}  // namespace semantic::server

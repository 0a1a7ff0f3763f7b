// SPDX-License-Identifier: Apache-2.0
#pragma once
// A range of bytes of a text. Plain values.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace semantic::engine {

/// Bytes [begin, end).
struct text_range {
    std::size_t begin;
    std::size_t end;
    bool operator==(const text_range&) const = default;
};

/// Returns: the parts of `ranges` that lie within bytes [begin, end), with offsets relative to
/// `begin`. Requires: `ranges` ascend and do not overlap.
inline std::vector<text_range> ranges_within(std::span<const text_range> ranges, std::size_t begin,
                                             std::size_t end) {
    std::vector<text_range> found;
    auto next = std::upper_bound(
        ranges.begin(), ranges.end(), begin,
        [](std::size_t place, const text_range& range) { return place < range.end; });
    for (; next != ranges.end() && next->begin < end; ++next)
        found.push_back({std::max(next->begin, begin) - begin, std::min(next->end, end) - begin});
    return found;
}

}  // namespace semantic::engine

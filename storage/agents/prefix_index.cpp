// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/prefix_index.hpp"

#include <algorithm>
#include <cstring>

namespace semantic::storage {

std::size_t common_prefix_bytes(std::string_view a, std::string_view b) {
    // Compares whole strides with memcmp, which is fast, then the rest byte by byte.
    constexpr std::size_t stride = 256;
    std::size_t shorter = std::min(a.size(), b.size()), at = 0;
    while (at + stride <= shorter && std::memcmp(a.data() + at, b.data() + at, stride) == 0)
        at += stride;
    while (at < shorter && a[at] == b[at]) ++at;
    return at;
}

bool prefix_index::by_text::operator()(slot a, slot b) const {
    if ((*a)->id.tenant() != (*b)->id.tenant()) return (*a)->id.tenant() < (*b)->id.tenant();
    const int order = (*a)->text.compare((*b)->text);
    return order != 0 ? order < 0 : (*a)->id < (*b)->id;
}

bool prefix_index::by_text::operator()(slot a, const place& b) const {
    if ((*a)->id.tenant() != b.tenant) return (*a)->id.tenant() < b.tenant;
    return (*a)->text < b.text;
}

std::vector<prefix_neighbour> prefix_index::closest(const tenant_id& tenant, std::string_view text,
                                                    std::size_t count_max) const {
    std::vector<prefix_neighbour> found;
    // Texts are sorted, so the common prefix shrinks with the distance from the position at which
    // the prompt would be inserted. Walks from there to both sides, each time to the better one.
    auto right = texts_.lower_bound(place{tenant, text});
    auto left = right;
    // 0 for texts of another tenant, at which the walk ends.
    const auto common = [&](slot agent) {
        return (*agent)->id.tenant() == tenant ? common_prefix_bytes((*agent)->text, text) : 0;
    };
    std::size_t to_right = right != texts_.end() ? common(*right) : 0;
    std::size_t to_left = left != texts_.begin() ? common(*--left) : 0;
    while (found.size() < count_max && std::max(to_right, to_left) > 0) {
        if (to_right >= to_left) {
            found.push_back({**right, to_right});
            to_right = ++right != texts_.end() ? common(*right) : 0;
        } else {
            found.push_back({**left, to_left});
            to_left = left != texts_.begin() ? common(*--left) : 0;
        }
    }
    return found;
}

}  // namespace semantic::storage

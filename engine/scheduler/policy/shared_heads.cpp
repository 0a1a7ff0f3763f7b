// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/shared_heads.hpp"

#include <algorithm>
#include <tuple>

namespace semantic::engine {

namespace {

// The order of readers, see the header.
bool comes_before(const head_reader& a, const head_reader& b) {
    return std::tuple(-a.position, a.id, a.choice) < std::tuple(-b.position, b.id, b.choice);
}

}  // namespace

std::optional<head_wait> find_head_wait(const head_reader& one,
                                        std::span<const head_reader> holders,
                                        const std::function<int(std::size_t)>& count_common) {
    std::optional<head_wait> best;
    for (std::size_t i = 0; i < holders.size(); ++i) {
        if (!comes_before(holders[i], one)) continue;
        const int end = count_common(i);
        // Tokens that the holder has read already can be taken now: only later ones are waited for.
        if (end - holders[i].position < head_tokens_min) continue;
        if (!best || end > best->end) best = head_wait{i, end};
    }
    return best;
}

int cut_chunk(int position, int tokens, std::span<const int> ends, bool is_exact) {
    int cut = tokens;
    for (int end : ends)
        if (end > position) cut = std::min(cut, end - position);
    return is_exact ? cut : std::max(cut, std::min(tokens, head_chunk_min));
}

}  // namespace semantic::engine

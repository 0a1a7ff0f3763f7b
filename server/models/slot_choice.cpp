// SPDX-License-Identifier: Apache-2.0
#include "server/models/slot_choice.hpp"

#include <tuple>

namespace semantic::server {

std::optional<std::size_t> choose_slot(std::span<const slot_view> slots, bool may_add) {
    using time = std::chrono::steady_clock::time_point;
    std::optional<std::size_t> free;
    std::optional<std::size_t> chosen;
    std::tuple<bool, time> best;  // (is in use, since when): the smallest one gives way
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const slot_view& each = slots[i];
        // One model is changed at a time.
        if (!is_settled(each.phase)) return std::nullopt;
        if (each.phase != slot_phase::ready) {
            if (!free) free = i;
            continue;
        }
        const std::tuple order{!each.idle_since.has_value(),
                               each.idle_since.value_or(each.ready_since)};
        if (chosen && order >= best) continue;
        chosen = i;
        best = order;
    }
    return free && (may_add || !chosen) ? free : chosen;
}

}  // namespace semantic::server

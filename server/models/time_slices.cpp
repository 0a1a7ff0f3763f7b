// SPDX-License-Identifier: Apache-2.0
#include "server/models/time_slices.hpp"

#include <algorithm>

namespace semantic::server {

slice_decision decide_slice(const slice_state& state, const slice_rules& rules) {
    slice_decision decision;
    // Whether the model has been idle for `time` since it was loaded.
    const auto idle_for = [&](std::chrono::milliseconds time) {
        if (!state.idle_since) return false;
        return state.now - std::max(*state.idle_since, state.ready_since) >= time;
    };
    if (state.waiting.empty()) {
        decision.unloads = rules.idle_max.count() > 0 && idle_for(rules.idle_max);
        return decision;
    }
    const auto oldest = std::min_element(
        state.waiting.begin(), state.waiting.end(),
        [](const waiting_model& a, const waiting_model& b) { return a.since < b.since; });
    const bool is_over = state.now - std::max(state.ready_since, oldest->since) >= rules.slice;
    decision.may_begin = !is_over;
    if (is_over || idle_for(std::min(rules.linger, rules.slice))) decision.next = oldest->model;
    return decision;
}

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/prefill_turns.hpp"

#include <algorithm>
#include <tuple>

namespace semantic::engine {

prefill_turns::turn prefill_turns::turn_of(const storage::tenant_id& tenant) const {
    const auto known = turns_.find(tenant);
    return known == turns_.end() ? turn{} : known->second;
}

std::optional<std::size_t> prefill_turns::choose(std::span<const sequence_view> running) const {
    // The least goes first: the tenant's last turn, then ids above the tenant's last one.
    using rank = std::tuple<std::uint64_t, bool, request_id>;
    std::optional<std::size_t> chosen;
    rank least;
    for (std::size_t i = 0; i < running.size(); ++i) {
        const sequence_view& each = running[i];
        if (each.decoding || each.pending == 0 || each.waits) continue;
        const turn before = turn_of(each.tenant);
        const rank own{before.number, each.id <= before.last, each.id};
        if (chosen && own >= least) continue;
        chosen = i;
        least = own;
    }
    return chosen;
}

void prefill_turns::take(std::span<const sequence_view> running, std::size_t index) {
    turns_[running[index].tenant] = {++chunks_, running[index].id};
    std::erase_if(turns_, [&](const auto& known) {
        return std::ranges::find(running, known.first, &sequence_view::tenant) == running.end();
    });
}

}  // namespace semantic::engine

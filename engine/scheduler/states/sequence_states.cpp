// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/states/sequence_states.hpp"

#include <algorithm>
#include <utility>

namespace semantic::engine {

using storage::kept_state;

sequence_states::sequence_states(storage::block_pool& pool, storage::recurrent_ptr start, int known,
                                 const std::vector<kept_state>& kept,
                                 std::vector<planned_place> planned, const place_rules& rules)
    : pool_(&pool),
      live_(pool, nullptr),
      began_at_(0),
      turn_began_at_(known),
      planned_(std::move(planned)),
      rules_(rules) {
    go_on_from(std::move(start), known, kept);
}

void sequence_states::go_on_from(storage::recurrent_ptr start, int known,
                                 const std::vector<kept_state>& kept) {
    began_at_ = known;
    if (!pool_->layout().has_states()) return;
    live_ = storage::live_state(*pool_, start);
    const std::size_t count =
        storage::count_kept_within(kept, static_cast<std::size_t>(std::max(known, 0)));
    kept_.assign(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count));
    for (kept_state& each : kept_) {
        each.waits = false;
        // The memory may not have this state in RAM, while `start` was just read from disk.
        if (static_cast<int>(each.tokens) == known) each.state = start;
    }
}

void sequence_states::advance(int position) {
    if (!pool_->layout().has_states()) return;
    live_.advance();
    const auto planned = std::ranges::find(planned_, position, &planned_place::tokens);
    if (planned == planned_.end()) return;
    const auto place = static_cast<std::uint32_t>(position);
    const auto known = std::ranges::find(kept_, place, &kept_state::tokens);
    if (known != kept_.end()) {
        known->state = live_.share();  // computed again
        return;
    }
    const auto next = std::ranges::upper_bound(kept_, place, {}, &kept_state::tokens);
    kept_.insert(next, {place, planned->is_root, false, live_.share()});
    thin(kept_);
}

void sequence_states::thin(std::vector<kept_state>& states) const {
    std::vector<place_entry> places;
    for (const kept_state& each : states)
        places.push_back({static_cast<int>(each.tokens), each.is_root, is_new(each)});
    const std::vector<bool> stays = choose_places(places, rules_);
    std::size_t i = 0;
    std::erase_if(states, [&](const kept_state&) { return !stays[i++]; });
}

bool sequence_states::drop_kept() {
    const std::size_t before = kept_.size();
    std::erase_if(kept_, [this](const kept_state& each) { return is_new(each); });
    return kept_.size() < before;
}

void sequence_states::reset() {
    live_ = storage::live_state(*pool_, nullptr);
    // The places of the continued memory stay, without their states: other holders or its files
    // have those.
    std::erase_if(kept_, [this](const kept_state& each) { return is_new(each); });
    for (kept_state& each : kept_) each.state.reset();
}

std::vector<kept_state> sequence_states::publish(int tokens, bool at_end, bool goes_on) {
    if (!pool_->layout().has_states()) return {};
    const std::size_t count =
        storage::count_kept_within(kept_, static_cast<std::size_t>(std::max(tokens, 0)));
    std::vector<kept_state> states(kept_.begin(),
                                   kept_.begin() + static_cast<std::ptrdiff_t>(count));
    const auto end = static_cast<std::uint32_t>(tokens);
    if (at_end && tokens > 0) {
        if (states.empty() || states.back().tokens < end) states.push_back({end});
        states.back().state = live_.share();
    }
    // Only a memory's end may lie inside a group of wide-tail rows (place_rules::grain): a state
    // that was kept at an earlier end there is dropped.
    std::erase_if(states, [&](const kept_state& each) {
        return each.tokens != end && each.tokens % static_cast<std::uint32_t>(rules_.grain) != 0;
    });
    thin(states);
    // The next turn continues from the last state, so that one has to be in RAM.
    while (!states.empty() && states.back().state == nullptr) states.pop_back();
    for (std::size_t i = states.size(); goes_on && i-- > 0;) {
        if (!is_new(states[i])) continue;
        const int place = static_cast<int>(states[i].tokens);
        if (early_ == 0 && place - turn_began_at_ >= rules_.ladder) early_ = place;
        states[i].waits = place != early_;
    }
    return states;
}

}  // namespace semantic::engine

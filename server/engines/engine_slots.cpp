// SPDX-License-Identifier: Apache-2.0
#include "server/engines/engine_slots.hpp"

#include <algorithm>
#include <cassert>

namespace semantic::server {

namespace {

bool has_model(const slot_state& state) {
    return state.phase != slot_phase::empty && state.phase != slot_phase::failed;
}

}  // namespace

engine_slots::engine_slots(std::size_t count) {
    assert(count > 0);
    for (std::size_t i = 0; i < count; ++i)
        slots_.push_back(
            std::make_unique<engine_slot>(i == 0 ? slot_phase::idle : slot_phase::empty));
}

std::size_t engine_slots::usual_index() const {
    for (std::size_t i = 0; i < slots_.size(); ++i)
        if (has_model(slots_[i]->state())) return i;
    return 0;
}

engine_slot& engine_slots::usual() { return *slots_[usual_index()]; }
const engine_slot& engine_slots::usual() const { return *slots_[usual_index()]; }

std::optional<std::size_t> engine_slots::find(std::size_t model) const {
    std::optional<std::size_t> coming;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const slot_state now = slots_[i]->state();
        if (now.model == model && !now.target) return i;
        if (now.model == model || now.target == model) coming = i;
    }
    return coming;
}

std::vector<std::size_t> engine_slots::models_beside(std::optional<std::size_t> slot) const {
    std::vector<std::size_t> models;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const slot_state now = slots_[i]->state();
        if (i != slot && now.model) models.push_back(*now.model);
    }
    return models;
}

engine_lease engine_slots::lease(std::optional<std::size_t> model) {
    if (model)
        for (const auto& slot : slots_) {
            if (slot->state().model != model) continue;
            if (engine_lease lease = slot->lease(); lease && lease.model() == *model) return lease;
        }
    return usual().lease();
}

std::vector<engine_lease> engine_slots::look_at_all() {
    std::vector<engine_lease> all;
    const std::size_t first = usual_index();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        // The order: `first`, then all others by their number.
        const std::size_t each = i == 0 ? first : (i <= first ? i - 1 : i);
        if (engine_lease lease = slots_[each]->look()) all.push_back(std::move(lease));
    }
    return all;
}

bool engine_slots::any_ready() const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const auto& slot) { return slot->state().phase == slot_phase::ready; });
}

}  // namespace semantic::server

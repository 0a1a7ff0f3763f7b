// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the slot for a model that requests wait for: a free one if there is one, else that of
// the model that is missed least. Pure.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "server/engines/slot_state.hpp"

namespace semantic::server {

struct slot_view {
    slot_phase phase = slot_phase::empty;
    /// Since when no request has its engine; nothing while one has it.
    std::optional<std::chrono::steady_clock::time_point> idle_since{};
    std::chrono::steady_clock::time_point ready_since{};
};

/// Returns: the slot for one more model; nothing while a slot is changing. A free slot, where
/// `may_add` says that memory has room for one more model; else the slot that has been idle
/// longest; else the one whose model has been loaded longest; else, where no slot has a model, a
/// free one.
std::optional<std::size_t> choose_slot(std::span<const slot_view> slots, bool may_add);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "engine/types/activity_feed.hpp"

namespace semantic::engine {

const char* to_string(storage::memory_fate fate) noexcept {
    switch (fate) {
        case storage::memory_fate::evicted:
            return "evicted";
        case storage::memory_fate::lost:
            return "lost";
        case storage::memory_fate::removed:
            return "removed";
    }
    return "evicted";
}

const char* to_string(agent_changed::change change) noexcept {
    switch (change) {
        case agent_changed::change::created:
            return "created";
        case agent_changed::change::forked:
            return "forked";
        case agent_changed::change::erased:
            return "erased";
        case agent_changed::change::imported:
            return "imported";
    }
    return "created";
}

void activity_feed::watch(bool starts) {
    if (watchers_.fetch_add(starts ? 1 : -1) + (starts ? 1 : -1) > 0) return;
    // Nobody watches any more: what waits is dropped.
    take();
}

void activity_feed::keep(activity_kind event) {
    const auto now = std::chrono::system_clock::now();
    std::lock_guard lock(mutex_);
    if (waiting_.events.size() < events_max)
        waiting_.events.push_back({now, std::move(event)});
    else
        ++waiting_.dropped;
}

activity_feed::batch activity_feed::take() {
    std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
}

}  // namespace semantic::engine

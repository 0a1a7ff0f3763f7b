// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hands over what happens to one reader. While nobody watches, an event costs the look at one
// atomic and is not even made. Nothing waits: what the reader does not fetch in time is counted and
// gone. Owner: who starts the engine; every engine of a server writes to the same feed.
// Thread: any.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/types/activity.hpp"

namespace semantic::engine {

class activity_feed {
  public:
    static constexpr std::size_t events_max = 4096;  // that wait for the reader

    struct batch {
        std::vector<activity> events{};
        std::uint64_t dropped = 0;  // came while events_max waited
    };

    /// Begins to watch, or ends it: each begin needs an end. Waiting events are dropped with the
    /// last watcher.
    void watch(bool starts);
    bool is_watched() const noexcept { return watchers_.load(std::memory_order_relaxed) > 0; }

    /// `make()` returns what activity::event can be; called only while somebody watches.
    template <class Make>
    void publish(Make&& make) {
        if (is_watched()) keep(std::forward<Make>(make)());
    }
    /// Everything since the last time, in order.
    batch take();

  private:
    void keep(activity_kind event);

    std::atomic<int> watchers_{0};
    std::mutex mutex_;
    batch waiting_;  // guarded by mutex_
};

}  // namespace semantic::engine

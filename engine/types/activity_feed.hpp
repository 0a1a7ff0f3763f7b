// SPDX-License-Identifier: Apache-2.0
#pragma once
// A queue of the engine's activity for one reader. While nobody watches, publishing costs one read
// of an atomic, and the event is not even made. Writers never wait: if events_max events wait for
// the reader, further ones are dropped and counted. Owner: the starter of the engine; all engines
// of a server write to the same feed. Thread: any.

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
        std::uint64_t dropped = 0;  // number of events that came while events_max waited
    };

    /// Adds a watcher (`starts`) or removes one; calls must be paired. When the last watcher
    /// leaves, waiting events are dropped.
    void watch(bool starts);
    bool is_watched() const noexcept { return watchers_.load(std::memory_order_relaxed) > 0; }

    /// Publishes the event that `make()` returns; `make` is called only while somebody watches.
    template <class Make>
    void publish(Make&& make) {
        if (is_watched()) keep(std::forward<Make>(make)());
    }
    /// Removes and returns all waiting events, in order.
    batch take();

  private:
    void keep(activity_kind event);

    std::atomic<int> watchers_{0};
    std::mutex mutex_;
    batch waiting_;  // guarded by mutex_
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clients that follow which KV blocks this server has on disk. Owner: app. Thread: any.

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "server/runtime/task_group.hpp"
#include "storage/types/kv_event_feed.hpp"

namespace semantic::server {

class kv_followers {
  public:
    static constexpr int followers_max = 16;
    /// How many bytes of events may wait for a slow follower; beyond, it is asked to connect again.
    static constexpr std::size_t waiting_bytes_max = std::size_t{64} << 20;

    /// `feed`: null where nobody may follow.
    explicit kv_followers(std::shared_ptr<storage::kv_event_feed> feed) : feed_(std::move(feed)) {}

    /// The events; null where they cannot be followed.
    storage::kv_event_feed* feed() const { return feed_.get(); }
    /// Counts one more follower, until leave(). Returns: false, without counting it, where there
    /// are followers_max.
    bool enter() {
        if (count_.fetch_add(1) < followers_max) return true;
        leave();
        return false;
    }
    void leave() { --count_; }

    task_group tasks{};  // each follower's sending

  private:
    const std::shared_ptr<storage::kv_event_feed> feed_;
    std::atomic<int> count_{0};
};

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Has all open WebSockets check their keys after the key file was read again. Owner: app. Thread:
// any.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "storage/types/subscription.hpp"

namespace semantic::server {

class socket_checks {
  public:
    /// Ends with this object.
    using subscription = storage::subscription<socket_checks>;

    /// Registers a socket. `check`: ends the socket if its key is no longer valid. Called from any
    /// thread with a lock held, so it may only post.
    subscription follow(std::function<void()> check) {
        std::lock_guard lock(mutex_);
        const std::uint64_t id = next_id_++;
        checks_.emplace(id, std::move(check));
        return {*this, id};
    }
    /// Calls every `check`.
    void check_keys() const {
        std::lock_guard lock(mutex_);
        for (const auto& [id, check] : checks_) check();
    }

  private:
    friend subscription;
    void leave(std::uint64_t id) {
        std::lock_guard lock(mutex_);
        checks_.erase(id);
    }

    mutable std::mutex mutex_;  // guards what follows
    std::map<std::uint64_t, std::function<void()>> checks_;
    std::uint64_t next_id_ = 1;
};

}  // namespace semantic::server

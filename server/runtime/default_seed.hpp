// SPDX-License-Identifier: Apache-2.0
#pragma once
// The seed of requests that bring none of their own, once an operator has set one.
// Owner: app. Thread: any.

#include <cstdint>
#include <mutex>
#include <optional>

namespace semantic::server {

class default_seed {
  public:
    void set(std::optional<std::uint64_t> seed) {
        std::lock_guard lock(mutex_);
        seed_ = seed;
    }
    std::optional<std::uint64_t> get() const {
        std::lock_guard lock(mutex_);
        return seed_;
    }

  private:
    mutable std::mutex mutex_;
    std::optional<std::uint64_t> seed_;
};

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long to wait before something is tried again: exponential with full jitter, so that those
// whom a failure hit at the same moment do not come back together; bounded in count and in time.
// Not safe to share one object between threads.

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace semantic::storage {

struct backoff_options {
    int attempts_max = 6;  // the first one among them
    std::chrono::milliseconds first_max{100};
    std::chrono::milliseconds wait_max{5'000};
    std::chrono::milliseconds total_max{60'000};  // no attempt begins later than that
};

class backoff {
  public:
    backoff(const backoff_options& options, std::uint64_t seed)
        : options_(options), random_(seed) {}

    /// Call after each failed attempt. `elapsed`: time since the first attempt began;
    /// `retry_after`: the least wait that the other side asked for. Returns: how long to wait:
    /// `retry_after` and a random time between 0 and a bound, which doubles each time up to
    /// wait_max. Nothing when no further attempt is to be made.
    std::optional<std::chrono::milliseconds> next(std::chrono::milliseconds elapsed,
                                                  std::chrono::milliseconds retry_after);

    int attempts() const { return attempts_; }  // that have failed

  private:
    backoff_options options_;
    std::mt19937_64 random_;
    int attempts_ = 0;
};

}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#pragma once
// An amount (of tokens or requests) that is refilled at a steady rate, up to what a minute brings.
// It may be overdrawn: a request's cost is known after it has run, so it is let in while anything
// is left, and the next one waits until the debt is refilled. Pure: every call gets the time.
// Thread: guarded by its owner.

#include <chrono>

namespace semantic::server {

class token_bucket {
  public:
    using time_point = std::chrono::steady_clock::time_point;
    using duration = std::chrono::steady_clock::duration;

    /// Begins full. Requires: `per_minute` > 0.
    token_bucket(double per_minute, time_point now) noexcept;

    double per_minute() const noexcept { return size_; }
    /// What is there now; negative: overdrawn.
    double left(time_point now) const noexcept;
    /// Takes the amount, also where less is there. A negative amount gives back.
    void take(double amount, time_point now) noexcept;
    /// The time until `amount` is there; 0 when it is. Requires: `amount` is at most per_minute().
    duration until(double amount, time_point now) const noexcept;

  private:
    double size_;
    double left_;
    time_point at_;  // when `left_` was right
};

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A quantity that comes back at a steady rate, up to what a minute brings. It may be overdrawn:
// what a request costs is known when it has run, so it is let in while anything is left, and
// the next request waits until the debt is paid. Pure: every call says what time it is. Thread:
// guarded by its owner.

#include <chrono>

namespace semantic::server {

class token_bucket {
  public:
    using time_point = std::chrono::steady_clock::time_point;
    using duration = std::chrono::steady_clock::duration;

    /// Full. Requires: `per_minute` > 0.
    token_bucket(double per_minute, time_point now) noexcept;

    double per_minute() const noexcept { return size_; }
    /// Negative: overdrawn.
    double left(time_point now) const noexcept;
    /// Takes it, there or not. A negative amount gives back.
    void take(double amount, time_point now) noexcept;
    /// Until `amount` is there; 0 when it is. Requires: no more than per_minute().
    duration until(double amount, time_point now) const noexcept;

  private:
    double size_;
    double left_;
    time_point at_;  // when `left_` was right
};

}  // namespace semantic::server

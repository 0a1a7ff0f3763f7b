// SPDX-License-Identifier: Apache-2.0
#include "server/usage/token_bucket.hpp"

#include <algorithm>
#include <cmath>

namespace semantic::server {

namespace {

using seconds = std::chrono::duration<double>;
constexpr double minute = 60;

}  // namespace

token_bucket::token_bucket(double per_minute, time_point now) noexcept
    : size_(per_minute), left_(per_minute), at_(now) {}

double token_bucket::left(time_point now) const noexcept {
    const double passed = std::max(0.0, seconds(now - at_).count());
    return std::min(size_, left_ + passed * size_ / minute);
}

void token_bucket::take(double amount, time_point now) noexcept {
    left_ = std::min(size_, left(now) - amount);
    at_ = std::max(at_, now);
}

token_bucket::duration token_bucket::until(double amount, time_point now) const noexcept {
    const double missing = amount - left(now);
    if (missing <= 0) return duration::zero();
    // Rounded up, so that it is there when the time has passed.
    const double nanoseconds = std::ceil(missing * minute / size_ * 1e9);
    return std::chrono::duration_cast<duration>(
        std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds)));
}

}  // namespace semantic::server

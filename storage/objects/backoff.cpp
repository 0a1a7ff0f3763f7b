// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/backoff.hpp"

#include <algorithm>

namespace semantic::storage {

std::optional<std::chrono::milliseconds> backoff::next(std::chrono::milliseconds elapsed,
                                                       std::chrono::milliseconds retry_after) {
    using std::chrono::milliseconds;
    // So many doublings exceed every wait_max, and more would overflow.
    const int doublings = std::min(attempts_, 30);
    if (++attempts_ >= options_.attempts_max) return std::nullopt;
    const milliseconds bound =
        std::min(options_.first_max * (std::int64_t{1} << doublings), options_.wait_max);
    const milliseconds wait =
        retry_after +
        milliseconds(std::uniform_int_distribution<std::int64_t>(0, bound.count())(random_));
    if (elapsed + wait > options_.total_max) return std::nullopt;
    return wait;
}

}  // namespace semantic::storage

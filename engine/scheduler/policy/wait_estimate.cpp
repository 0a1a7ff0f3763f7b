// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/wait_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace semantic::engine {

namespace {

// The weight of the newest request in the mean.
constexpr double newest_wait_share = 0.1;

}  // namespace

void wait_estimate::learn(double seconds) {
    seconds = std::max(seconds, 0.0);
    mean_ = known_ ? mean_ + newest_wait_share * (seconds - mean_) : seconds;
    known_ = true;
}

// Running requests end one after the other, `places` of them in the time that one takes.
double wait_estimate::seconds(int ahead, int places) const {
    return mean_ * (ahead + 1) / std::max(places, 1);
}

queued wait_estimate::place_behind(std::size_t open, int places) const {
    const int ahead = static_cast<int>(open) - places;
    // A slot is free: the request begins at once.
    if (ahead < 0) return {};
    return {ahead, whole_seconds(ahead, places)};
}

std::chrono::seconds wait_estimate::whole_seconds(int ahead, int places) const {
    return std::chrono::seconds(static_cast<std::int64_t>(std::ceil(seconds(ahead, places))));
}

failed wait_estimate::overloaded(std::size_t limit, std::size_t open, int places) const {
    const auto wait = std::max(place_behind(open, places).estimate, std::chrono::seconds(1));
    return {failure_kind::overloaded,
            std::to_string(limit) + " requests are already running or waiting, for about " +
                std::to_string(wait.count()) + " s",
            wait};
}

}  // namespace semantic::engine

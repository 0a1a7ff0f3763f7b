#include "engine/scheduler/policy/wait_estimate.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

constexpr double newest_share = 0.1;

}  // namespace

void wait_estimate::learn(double seconds) {
    seconds = std::max(seconds, 0.0);
    mean_ = known_ ? mean_ + newest_share * (seconds - mean_) : seconds;
    known_ = true;
}

// Running requests end one after the other, `places` of them in the time that one takes.
double wait_estimate::seconds(int ahead, int places) const {
    return mean_ * (ahead + 1) / std::max(places, 1);
}

}  // namespace semantic::engine

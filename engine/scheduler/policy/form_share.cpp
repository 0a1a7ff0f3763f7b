// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/form_share.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// Of one thread, with caches that others have used in between.
constexpr double places_a_second = 20'000'000;
// All forms together may make a step so much longer, at least and at most.
constexpr double part_of_pass = 0.125;
constexpr double seconds_least = 0.0005;
constexpr double seconds_most = 0.010;
// One that is alone delays only who comes next.
constexpr double seconds_alone = 0.020;

}  // namespace

std::int64_t form_share(const form_load& load) {
    const double seconds =
        load.is_alone ? seconds_alone
                      : std::clamp(load.pass_seconds * part_of_pass, seconds_least, seconds_most);
    const int threads = std::max(1, load.threads);
    const int in_a_row = std::max(1, (load.held + threads - 1) / threads);
    const auto share = static_cast<std::int64_t>(seconds * places_a_second / in_a_row);
    return std::max(form_share_least, share);
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/form_share.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// Automaton positions that one thread looks at per second, measured with cold caches.
constexpr double places_a_second = 20'000'000;
// All forms together may make a step longer by this part of the pass, within these bounds.
constexpr double part_of_pass = 0.125;
constexpr double seconds_least = 0.0005;
constexpr double seconds_most = 0.010;
// A form whose answer is alone in the step delays no other answer.
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

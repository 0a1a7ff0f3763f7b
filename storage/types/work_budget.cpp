// SPDX-License-Identifier: Apache-2.0
#include "storage/types/work_budget.hpp"

#include <algorithm>
#include <string>

namespace semantic::storage {

using limit = work_limit_exceeded::limit;

void work_budget::charge_bytes(std::size_t count) {
    if (count > limits_.bytes - bytes_)
        throw work_limit_exceeded(limit::bytes, "it takes more memory than the " +
                                                    std::to_string(limits_.bytes >> 20) +
                                                    " MiB that one request may");
    bytes_ += count;
    bytes_peak_ = std::max(bytes_peak_, bytes_);
}

void work_budget::release_bytes(std::size_t count) noexcept { bytes_ -= std::min(bytes_, count); }

void work_budget::check() const {
    if (is_cancelled()) throw work_limit_exceeded(limit::cancelled, "the request was cancelled");
    if (limits_.deadline != clock::time_point::max() && clock::now() >= limits_.deadline)
        throw work_limit_exceeded(limit::deadline, "the request's deadline has passed");
}

/// The slow path of charge_steps(): throws where the limit would be exceeded, and looks at deadline
/// and cancellation, which is due again after check_every more steps.
void work_budget::check_steps(std::uint64_t count) {
    if (count > limits_.steps - steps_)
        throw work_limit_exceeded(limit::steps, "it takes more work than the " +
                                                    std::to_string(limits_.steps) +
                                                    " steps that one request may");
    next_check_ = steps_ + check_every;
    check();
}

}  // namespace semantic::storage

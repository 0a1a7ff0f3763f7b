// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/prefix_arrival.hpp"

#include <algorithm>
#include <chrono>

namespace semantic::storage {

void prefix_arrival::came(std::span<const int> layers) {
    std::lock_guard lock(mutex_);
    for (const int layer : layers)
        if (--to_come_[static_cast<std::size_t>(layer)] == 0) changed_.notify_all();
}

void prefix_arrival::failed() {
    std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
}

prefix_arrival::outcome prefix_arrival::wait(int layer, const guard& waiter) {
    // A guard has no means to notify, so it is asked again after this time.
    constexpr auto between_questions = std::chrono::milliseconds(2);
    std::unique_lock lock(mutex_);
    for (;;) {
        if (failed_) return outcome::failed;
        if (to_come_[static_cast<std::size_t>(layer)] == 0) return outcome::there;
        lock.unlock();
        const bool enough = waiter.should_give_up();
        lock.lock();
        if (enough) return outcome::given_up;
        if (!failed_ && to_come_[static_cast<std::size_t>(layer)] > 0)
            changed_.wait_for(lock, between_questions);
    }
}

bool prefix_arrival::complete() {
    std::lock_guard lock(mutex_);
    return !failed_ && std::ranges::all_of(to_come_, [](int pieces) { return pieces == 0; });
}

}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#include "storage/types/kv_event_feed.hpp"

namespace semantic::storage {

kv_event_feed::subscription kv_event_feed::follow(receiver to) {
    std::lock_guard lock(mutex_);
    const std::uint64_t id = next_id_++;
    receivers_.emplace(id, std::move(to));
    followers_ = receivers_.size();
    return {*this, id};
}

void kv_event_feed::leave(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    receivers_.erase(id);
    followers_ = receivers_.size();
}

void kv_event_feed::deliver(kv_event event) {
    const auto shared = std::make_shared<const kv_event>(std::move(event));
    std::lock_guard lock(mutex_);
    for (const auto& [id, to] : receivers_) to(shared);
}

}  // namespace semantic::storage

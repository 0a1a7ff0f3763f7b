// SPDX-License-Identifier: Apache-2.0
#pragma once
// Held by a subscriber: the subscription ends when this object does. Thread: as its publisher says.

#include <cstdint>
#include <utility>

namespace semantic::storage {

/// `Publisher` makes it, outlives it, and has a method leave(id), which ends the subscription.
template <class Publisher>
class subscription {
  public:
    subscription() = default;
    subscription(subscription&& other) noexcept
        : publisher_(std::exchange(other.publisher_, nullptr)), id_(other.id_) {}
    subscription& operator=(subscription&& other) noexcept {
        std::swap(publisher_, other.publisher_);
        std::swap(id_, other.id_);
        return *this;
    }
    ~subscription() {
        if (publisher_ != nullptr) publisher_->leave(id_);
    }

  private:
    friend Publisher;
    subscription(Publisher& publisher, std::uint64_t id) : publisher_(&publisher), id_(id) {}
    Publisher* publisher_ = nullptr;
    std::uint64_t id_ = 0;
};

}  // namespace semantic::storage

#pragma once
// What whoever listens to something holds: it ends with this. Thread: as what it is of says.

#include <cstdint>
#include <utility>

namespace semantic::storage {

/// `Of`, which outlives it, has leave(id), and makes it.
template <class Of>
class subscription {
  public:
    subscription() = default;
    subscription(subscription&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), id_(other.id_) {}
    subscription& operator=(subscription&& other) noexcept {
        std::swap(of_, other.of_);
        std::swap(id_, other.id_);
        return *this;
    }
    ~subscription() {
        if (of_ != nullptr) of_->leave(id_);
    }

  private:
    friend Of;
    subscription(Of& of, std::uint64_t id) : of_(&of), id_(id) {}
    Of* of_ = nullptr;
    std::uint64_t id_ = 0;
};

}  // namespace semantic::storage

#pragma once
// Which answers of message threads are being continued right now: each by one request at a time.
// Owner: app. Thread: any.

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "storage/types/ids.hpp"

namespace semantic::server {

class turns_in_flight {
    using key = std::pair<storage::tenant_id, std::string>;

  public:
    /// The turn is in flight as long as this lives, which may not be longer than the set.
    class turn {
      public:
        turn(turn&& other) noexcept
            : of_(std::exchange(other.of_, nullptr)), key_(std::move(other.key_)) {}
        turn& operator=(turn&&) = delete;
        ~turn() {
            if (of_ != nullptr) of_->end(key_);
        }

      private:
        friend class turns_in_flight;
        turn(turns_in_flight& of, key which) : of_(&of), key_(std::move(which)) {}
        turns_in_flight* of_;
        key key_;
    };

    /// Returns: nothing when that answer is being continued already.
    std::optional<turn> begin(const storage::tenant_id& tenant, const std::string& message_id) {
        key which(tenant, message_id);
        std::lock_guard lock(mutex_);
        if (!running_.insert(which).second) return std::nullopt;
        return turn(*this, std::move(which));
    }

  private:
    void end(const key& which) {
        std::lock_guard lock(mutex_);
        running_.erase(which);
    }
    std::mutex mutex_;
    std::set<key> running_;
};

}  // namespace semantic::server

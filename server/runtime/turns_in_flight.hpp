// SPDX-License-Identifier: Apache-2.0
#pragma once
// The right to continue an answer of a thread, which one request has at a time. Owner: app. Thread:
// any.

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
    /// The right to continue one answer, as long as this object lives; the set outlives it.
    class turn {
      public:
        turn(turn&& other) noexcept
            : turns_(std::exchange(other.turns_, nullptr)), key_(std::move(other.key_)) {}
        turn& operator=(turn&&) = delete;
        ~turn() {
            if (turns_ != nullptr) turns_->end(key_);
        }

      private:
        friend class turns_in_flight;
        turn(turns_in_flight& turns, key turn_key) : turns_(&turns), key_(std::move(turn_key)) {}
        turns_in_flight* turns_;
        key key_;
    };

    /// Takes the right to continue message `message_id`. Returns: nothing when another request has
    /// it.
    std::optional<turn> begin(const storage::tenant_id& tenant, const std::string& message_id) {
        key turn_key(tenant, message_id);
        std::lock_guard lock(mutex_);
        if (!running_.insert(turn_key).second) return std::nullopt;
        return turn(*this, std::move(turn_key));
    }

  private:
    void end(const key& turn_key) {
        std::lock_guard lock(mutex_);
        running_.erase(turn_key);
    }
    std::mutex mutex_;
    std::set<key> running_;
};

}  // namespace semantic::server

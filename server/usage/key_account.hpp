// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one tenant's keys have used, and what they may: requests and tokens a minute, requests at
// once. Requests are those that make the model work; tokens are those that were computed for them,
// of prompts and answers; what was remembered costs nothing.
// Owner: key_accounts, shared with the requests that run. Thread: any.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "protocol/wire/usage.hpp"
#include "server/usage/token_bucket.hpp"

namespace semantic::server {

/// 0: no limit.
struct key_limits {
    std::uint64_t requests_per_minute = 0;
    std::uint64_t tokens_per_minute = 0;
    std::uint64_t concurrent_requests = 0;
};

class key_account {
  public:
    using time_point = token_bucket::time_point;

    /// `name`: as clients' reports and metrics have it; no secret.
    key_account(std::string name, const key_limits& limits, time_point now);

    const std::string& name() const noexcept { return name_; }

    /// Takes a request and a slot, or says which limit is reached and when to come back.
    std::optional<protocol::limit_reached> begin(time_point now);
    void end();
    /// Requests that have begun and not ended.
    std::uint64_t running() const {
        std::lock_guard lock(mutex_);
        return used_.running;
    }
    /// Prompt tokens of a request that has begun.
    void count_prompt(std::uint64_t computed, std::uint64_t reused, time_point now);
    void count_output(std::uint64_t tokens, time_point now);

    protocol::key_usage report(time_point now) const;
    /// What is left of the limits that there are.
    protocol::rate_limits left(time_point now) const;

  private:
    const std::string name_;
    const key_limits limits_;
    mutable std::mutex mutex_;
    std::optional<token_bucket> requests_;  // absent: no limit
    std::optional<token_bucket> tokens_;
    protocol::key_usage used_;  // all but its name and limits
};

/// A request's slot among those that its key may have at once. Thread: any.
class key_slot {
  public:
    /// Requires: begin() of `account` has let it in.
    explicit key_slot(std::shared_ptr<key_account> account) : account_(std::move(account)) {}
    ~key_slot() { release(); }
    key_slot(const key_slot&) = delete;
    key_slot& operator=(const key_slot&) = delete;
    /// Before the last bytes go out: who has them may ask again at once.
    void release() {
        if (!released_.exchange(true)) account_->end();
    }
    const std::shared_ptr<key_account>& account() const noexcept { return account_; }

  private:
    std::shared_ptr<key_account> account_;
    std::atomic<bool> released_{false};
};

}  // namespace semantic::server

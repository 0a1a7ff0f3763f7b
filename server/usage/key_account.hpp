// SPDX-License-Identifier: Apache-2.0
#pragma once
// Usage and limits of one tenant's keys: requests and tokens a minute, requests at once. Only
// requests that make the model work count, and tokens that were computed for prompts and answers;
// remembered ones cost nothing. Owner: key_accounts, shared with the requests that run. Thread:
// any.

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

/// What one tenant may use; 0: no limit.
struct key_limits {
    std::uint64_t requests_per_minute = 0;
    std::uint64_t tokens_per_minute = 0;
    std::uint64_t concurrent_requests = 0;
};

class key_account {
  public:
    using time_point = token_bucket::time_point;

    /// `name`: for reports and metrics; no secret.
    key_account(std::string name, const key_limits& limits, time_point now);

    const std::string& name() const noexcept { return name_; }

    /// Begins a request. Returns: the limit that is reached and when to come back; nothing: the
    /// request counts until end().
    std::optional<protocol::limit_reached> begin(time_point now);
    /// Ends a request that begin() has let in.
    void end();
    /// Requests that have begun and not ended.
    std::uint64_t running() const {
        std::lock_guard lock(mutex_);
        return used_.running;
    }
    /// Counts a request's prompt tokens.
    void count_prompt(std::uint64_t computed, std::uint64_t reused, time_point now);
    /// Counts tokens of an answer.
    void count_output(std::uint64_t tokens, time_point now);

    /// All usage and limits, for clients and metrics.
    protocol::key_usage report(time_point now) const;
    /// What is left of the configured limits.
    protocol::rate_limits left(time_point now) const;

  private:
    const std::string name_;
    const key_limits limits_;
    mutable std::mutex mutex_;
    std::optional<token_bucket> requests_;  // absent: no limit
    std::optional<token_bucket> tokens_;
    protocol::key_usage used_;  // all but its name and limits
};

/// A request that counts as running for its key, until release(). Thread: any.
class key_slot {
  public:
    /// Requires: begin() of `account` has let it in.
    explicit key_slot(std::shared_ptr<key_account> account) : account_(std::move(account)) {}
    ~key_slot() { release(); }
    key_slot(const key_slot&) = delete;
    key_slot& operator=(const key_slot&) = delete;
    /// Ends the count. To be called before the last bytes are sent: a client that has them may ask
    /// again at once.
    void release() {
        if (!released_.exchange(true)) account_->end();
    }
    const std::shared_ptr<key_account>& account() const noexcept { return account_; }

  private:
    std::shared_ptr<key_account> account_;
    std::atomic<bool> released_{false};
};

}  // namespace semantic::server

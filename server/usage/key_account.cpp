// SPDX-License-Identifier: Apache-2.0
#include "server/usage/key_account.hpp"

#include <algorithm>
#include <cmath>

namespace semantic::server {

namespace {

using protocol::limit_kind;
using protocol::limit_reached;

// A guess, since it is not known how long the running requests take.
constexpr std::chrono::seconds wait_for_a_slot{1};

std::optional<token_bucket> bucket_of(std::uint64_t per_minute, key_account::time_point now) {
    if (per_minute == 0) return std::nullopt;
    return token_bucket(static_cast<double>(per_minute), now);
}

protocol::limit_left left_of(const token_bucket& bucket, key_account::time_point now) {
    const double size = bucket.per_minute();
    return {static_cast<std::uint64_t>(size),
            static_cast<std::uint64_t>(std::max(0.0, std::floor(bucket.left(now)))),
            std::chrono::ceil<std::chrono::milliseconds>(bucket.until(size, now))};
}

}  // namespace

key_account::key_account(std::string name, const key_limits& limits, time_point now)
    : name_(std::move(name)),
      limits_(limits),
      requests_(bucket_of(limits.requests_per_minute, now)),
      tokens_(bucket_of(limits.tokens_per_minute, now)) {}

std::optional<limit_reached> key_account::begin(time_point now) {
    std::lock_guard lock(mutex_);
    const auto refuse = [&](limit_kind kind, std::uint64_t limit, token_bucket::duration wait) {
        ++used_.refused[static_cast<std::size_t>(kind)];
        return limit_reached{kind, limit, std::chrono::ceil<std::chrono::seconds>(wait)};
    };
    if (limits_.concurrent_requests != 0 && used_.running >= limits_.concurrent_requests)
        return refuse(limit_kind::concurrent, limits_.concurrent_requests, wait_for_a_slot);
    if (tokens_ && tokens_->left(now) < 1)
        return refuse(limit_kind::tokens, limits_.tokens_per_minute, tokens_->until(1, now));
    if (requests_ && requests_->left(now) < 1)
        return refuse(limit_kind::requests, limits_.requests_per_minute, requests_->until(1, now));
    if (requests_) requests_->take(1, now);
    ++used_.requests;
    ++used_.running;
    return std::nullopt;
}

void key_account::end() {
    std::lock_guard lock(mutex_);
    --used_.running;
}

void key_account::count_prompt(std::uint64_t computed, std::uint64_t reused, time_point now) {
    std::lock_guard lock(mutex_);
    used_.tokens_computed += computed;
    used_.tokens_reused += reused;
    if (tokens_) tokens_->take(static_cast<double>(computed), now);
}

void key_account::count_output(std::uint64_t tokens, time_point now) {
    std::lock_guard lock(mutex_);
    used_.tokens_output += tokens;
    if (tokens_) tokens_->take(static_cast<double>(tokens), now);
}

protocol::rate_limits key_account::left(time_point now) const {
    std::lock_guard lock(mutex_);
    protocol::rate_limits limits;
    if (requests_) limits.requests = left_of(*requests_, now);
    if (tokens_) limits.tokens = left_of(*tokens_, now);
    return limits;
}

protocol::key_usage key_account::report(time_point now) const {
    protocol::rate_limits limits = left(now);
    std::lock_guard lock(mutex_);
    protocol::key_usage all = used_;
    all.name = name_;
    all.limits = limits;
    all.concurrent_limit = limits_.concurrent_requests;
    return all;
}

}  // namespace semantic::server

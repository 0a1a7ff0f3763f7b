// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keys have used and may use, as clients read it: the headers that the vendors' SDKs know, the
// refusal, and the bodies of GET /v1/usage and /admin/usage. Pure.
// Source: the vendors' documents on rate limits (protocol/README.md, "Limits of a key").

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/wire/api_error.hpp"

namespace semantic::protocol {

enum class limit_kind { requests, tokens, concurrent };
inline constexpr std::size_t limit_kinds = 3;
const char* to_string(limit_kind kind) noexcept;

struct limit_left {
    std::uint64_t limit = 0;  // a minute
    std::uint64_t left = 0;
    std::chrono::milliseconds full_in{};  // when all of it is there again
};
/// Absent: no limit.
struct rate_limits {
    std::optional<limit_left> requests;
    std::optional<limit_left> tokens;
};

struct limit_reached {
    limit_kind kind = limit_kind::requests;
    std::uint64_t limit = 0;
    std::chrono::seconds wait{};  // until the same request may be let in
};

struct key_usage {
    std::string name;
    std::uint64_t requests = 0;                        // that were let in
    std::array<std::uint64_t, limit_kinds> refused{};  // by limit_kind
    std::uint64_t tokens_computed = 0;                 // of prompts
    std::uint64_t tokens_reused = 0;
    std::uint64_t tokens_output = 0;
    std::uint64_t running = 0;
    rate_limits limits;
    std::uint64_t concurrent_limit = 0;  // 0: none
};

/// Returns: the headers in which the vendor's clients look for what is left of their limits at the
/// time `now`. The native dialect has Anthropic's.
std::vector<std::pair<std::string, std::string>> rate_limit_fields(
    dialect d, const rate_limits& limits, std::chrono::system_clock::time_point now);
/// Returns: the error of a request beyond a limit, with the time after which it may succeed.
failure refusal(const limit_reached& limit);
/// The body for one key, and the list for all.
std::string usage_body(const key_usage& usage);
std::string usage_list_body(const std::vector<key_usage>& all);

}  // namespace semantic::protocol

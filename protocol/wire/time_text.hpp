// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times as the dialects write them. Pure.

#include <chrono>
#include <cstdint>
#include <string>

namespace semantic::protocol {

/// RFC 3339 in UTC: "2026-11-20T12:00:00Z".
std::string time_text(std::int64_t unix_seconds);
/// The same with microseconds: "2026-11-20T12:00:00.000250Z".
std::string time_text(std::chrono::system_clock::time_point time);

}  // namespace semantic::protocol

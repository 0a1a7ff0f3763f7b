// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many bytes may be written to the disk for agents' memories, a day and for one turn of an
// agent: disks wear. Owner: open_directory. Thread: safe from any; waits for a short mutex.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::storage {

/// 0: any number.
struct write_limits {
    std::uint64_t day_bytes = 0;   // of all agents together, a day in UTC
    std::uint64_t turn_bytes = 0;  // of one agent, from the end of one answer to that of the next
};

/// Counts from when it is made: a program that is started again begins a new day.
class write_bound {
  public:
    using clock = std::chrono::system_clock;

    void set_limits(const write_limits& limits);
    /// Counts `bytes` before they are written for an agent, in whose turn `turn_bytes` were written
    /// already. Returns: nothing; or a sentence that says which limit would be exceeded, and then
    /// nothing is counted.
    std::optional<std::string> reserve(std::uint64_t bytes, std::uint64_t turn_bytes,
                                       clock::time_point now);
    /// Replaces a reservation of `reserved` bytes by the bytes that were `written`.
    void settle(std::uint64_t reserved, std::uint64_t written);
    /// Returns: what was written, or is reserved, on the day of `now`.
    std::uint64_t bytes_of_day(clock::time_point now);

  private:
    void begin_day(clock::time_point now);

    std::mutex mutex_;  // guards everything below
    write_limits limits_;
    std::chrono::sys_days day_{};
    std::uint64_t bytes_ = 0;  // of that day
};

/// Returns: a manifest's note of the bytes that were written for an agent: 20 digits.
std::string encode_written(std::uint64_t bytes);
/// Returns: the bytes of such a note; 0 for a note in any other form.
std::uint64_t decode_written(std::string_view note);

}  // namespace semantic::storage

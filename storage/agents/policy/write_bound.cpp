// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/policy/write_bound.hpp"

#include <algorithm>
#include <charconv>

namespace semantic::storage {

namespace {

// The decimal digits of 2^64 - 1.
constexpr std::size_t note_digits = 20;

/// The sentence for a save that is refused. `span`: the period in words; `option`: the one that set
/// the limit.
std::string sentence_of(std::uint64_t wanted, std::uint64_t written, std::uint64_t limit,
                        const char* span, const char* option) {
    return std::to_string(wanted) + " bytes are to be written, " + std::to_string(written) +
           " were written " + span + ", and " + option + " allows " + std::to_string(limit) +
           ": the memory stays in RAM only";
}

/// Whether `bytes` more than `written` are above the limit; 0: no limit. Without overflow.
bool exceeds(std::uint64_t bytes, std::uint64_t written, std::uint64_t limit) {
    return limit != 0 && (written > limit || bytes > limit - written);
}

}  // namespace

void write_bound::set_limits(const write_limits& limits) {
    const std::lock_guard lock(mutex_);
    limits_ = limits;
}

std::optional<std::string> write_bound::reserve(std::uint64_t bytes, std::uint64_t turn_bytes,
                                                clock::time_point now) {
    const std::lock_guard lock(mutex_);
    begin_day(now);
    if (exceeds(bytes, turn_bytes, limits_.turn_bytes))
        return sentence_of(bytes, turn_bytes, limits_.turn_bytes, "in this turn",
                           "--disk-writes-per-turn-mb");
    if (exceeds(bytes, bytes_, limits_.day_bytes))
        return sentence_of(bytes, bytes_, limits_.day_bytes, "today", "--disk-writes-per-day-mb");
    bytes_ += bytes;
    return std::nullopt;
}

void write_bound::settle(std::uint64_t reserved, std::uint64_t written) {
    const std::lock_guard lock(mutex_);
    // A reservation made before midnight is no longer in bytes_, so no more than there is goes.
    bytes_ -= std::min(bytes_, reserved);
    bytes_ += written;
}

std::uint64_t write_bound::bytes_of_day(clock::time_point now) {
    const std::lock_guard lock(mutex_);
    begin_day(now);
    return bytes_;
}

/// Sets the count to 0 when `now` is a later day (UTC) than that of the count.
void write_bound::begin_day(clock::time_point now) {
    const auto day = std::chrono::floor<std::chrono::days>(now);
    // Earlier: the clock was set back, which must not give the day's bytes a second time.
    if (day <= day_) return;
    day_ = day;
    bytes_ = 0;
}

std::string encode_written(std::uint64_t bytes) {
    const std::string digits = std::to_string(bytes);
    return std::string(note_digits - digits.size(), '0') + digits;
}

std::uint64_t decode_written(std::string_view note) {
    std::uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(note.data(), note.data() + note.size(), bytes);
    const bool is_number = error == std::errc() && end == note.data() + note.size();
    return is_number && note.size() == note_digits ? bytes : 0;
}

}  // namespace semantic::storage

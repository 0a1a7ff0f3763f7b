// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long something took, counted by bounds. Thread: any; relaxed atomics.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace semantic::storage {

/// Histogram over fixed bounds in seconds; the last bucket is +Inf.
struct latency_histogram {
    static constexpr std::array<double, 16> bounds{
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
    std::array<std::atomic<std::uint64_t>, bounds.size() + 1>
        buckets{};  // not cumulative; the renderer adds up
    std::atomic<std::uint64_t> sum_us{0};

    /// Counts one duration.
    void observe(double seconds) noexcept {
        std::size_t i = 0;
        while (i < bounds.size() && seconds > bounds[i]) ++i;
        buckets[i].fetch_add(1, std::memory_order_relaxed);
        sum_us.fetch_add(static_cast<std::uint64_t>(seconds * 1e6), std::memory_order_relaxed);
    }
};

}  // namespace semantic::storage

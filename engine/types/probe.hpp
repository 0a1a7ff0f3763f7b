#pragma once
// Counters that the engine keeps about itself, and the feed of what happens in it. Written with
// relaxed atomics, rendered elsewhere.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/types/activity_feed.hpp"

namespace semantic::engine {

/// Cumulative histogram over fixed bounds in seconds; the last bucket is +Inf.
struct latency_histogram {
    static constexpr std::array<double, 16> bounds{
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
    std::array<std::atomic<std::uint64_t>, bounds.size() + 1>
        buckets{};  // not cumulative; the renderer adds up
    std::atomic<std::uint64_t> sum_us{0};

    void observe(double seconds) noexcept {
        std::size_t i = 0;
        while (i < bounds.size() && seconds > bounds[i]) ++i;
        buckets[i].fetch_add(1, std::memory_order_relaxed);
        sum_us.fetch_add(static_cast<std::uint64_t>(seconds * 1e6), std::memory_order_relaxed);
    }
};

struct engine_probe {
    /// Null: nobody can watch.
    explicit engine_probe(std::shared_ptr<activity_feed> to = nullptr)
        : feed(to ? std::move(to) : std::make_shared<activity_feed>()) {}

    const std::shared_ptr<activity_feed> feed;  // not null
    std::atomic<std::uint64_t> requests_submitted{0};
    std::atomic<std::uint64_t> requests_finished{0};
    std::atomic<std::uint64_t> requests_failed{0};
    std::atomic<std::uint64_t> requests_cancelled{0};
    std::atomic<std::uint64_t> tokens_prefilled{0};      // prompt tokens computed
    std::atomic<std::uint64_t> tokens_decoded{0};        // tokens sampled
    std::atomic<std::uint64_t> tokens_reused_ram{0};     // prompt tokens whose KV was in the pool
    std::atomic<std::uint64_t> tokens_reused_disk{0};    // prompt tokens whose KV was read back
    std::array<std::atomic<std::uint64_t>, 9> misses{};  // by miss_reason
    std::atomic<std::uint64_t> early_starts{0};  // prompts that began while their prefix was read
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> saves_late{0};  // answers that ended before their memory was on disk
    std::atomic<std::int64_t> running{0};      // sequences in prefill or decode
    std::atomic<std::int64_t> waiting{0};
    std::atomic<std::int64_t> wait_estimate_ms{0};  // for a request that came now
    latency_histogram time_to_first_token;
    latency_histogram inter_token;
    latency_histogram step_duration;
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine's counters, written with relaxed atomics and rendered elsewhere, and its activity
// feed.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/types/activity_feed.hpp"
#include "engine/types/draft_usage.hpp"
#include "storage/types/latency_histogram.hpp"

namespace semantic::engine {

using storage::latency_histogram;

struct engine_probe {
    /// `to`: the feed that events are published on; null: one that nobody watches.
    explicit engine_probe(std::shared_ptr<activity_feed> to = nullptr)
        : feed(to ? std::move(to) : std::make_shared<activity_feed>()) {}

    const std::shared_ptr<activity_feed> feed;  // not null
    std::atomic<std::uint64_t> requests_submitted{0};
    std::atomic<std::uint64_t> requests_finished{0};
    std::atomic<std::uint64_t> requests_failed{0};
    std::atomic<std::uint64_t> requests_cancelled{0};
    std::atomic<std::uint64_t> tokens_prefilled{0};  // prompt tokens computed
    std::atomic<std::uint64_t> tokens_decoded{0};    // tokens sampled
    // Draft tokens that ran, and those of them that were then drawn; by draft_origin.
    std::array<std::atomic<std::uint64_t>, draft_origin_count> tokens_drafted{};
    std::array<std::atomic<std::uint64_t>, draft_origin_count> drafts_taken{};
    std::atomic<std::uint64_t> tokens_reused_ram{0};     // prompt tokens whose KV was in the pool
    std::atomic<std::uint64_t> tokens_reused_disk{0};    // prompt tokens whose KV was read back
    std::array<std::atomic<std::uint64_t>, 9> misses{};  // by miss_reason
    std::atomic<std::uint64_t> early_starts{0};  // prompts that began while their prefix was read
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> saves_late{0};  // answers that ended before their memory was on disk
    std::atomic<std::uint64_t> turns_saved{0};             // turns whose save has ended
    std::atomic<std::uint64_t> turn_bytes_written{0};      // to disk, for all these turns
    std::atomic<std::uint64_t> turn_bytes_written_max{0};  // the most for one turn
    std::atomic<std::int64_t> running{0};                  // sequences in prefill or decode
    std::atomic<std::int64_t> waiting{0};
    std::atomic<std::int64_t> wait_estimate_ms{0};        // wait of a request that would come now
    std::array<std::atomic<std::uint64_t>, 4> matches{};  // prompts, by match_kind
    latency_histogram queue_time;                         // from submit to a batch slot
    latency_histogram head_wait;  // waits for a prompt head that another request reads
    std::atomic<std::int64_t> head_waiting{0};
    latency_histogram time_to_first_token;
    latency_histogram inter_token;
    latency_histogram step_duration;
};

}  // namespace semantic::engine

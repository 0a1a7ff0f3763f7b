// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counters that the storage layer keeps about itself. Written with relaxed atomics, rendered
// elsewhere.

#include <atomic>
#include <cstdint>

#include "storage/types/latency_histogram.hpp"

namespace semantic::storage {

struct store_probe {
    std::atomic<std::uint64_t> blocks_written{0};
    std::atomic<std::uint64_t> blocks_read{0};
    std::atomic<std::uint64_t> bytes_written{0};
    std::atomic<std::uint64_t> bytes_read{0};
    std::atomic<std::uint64_t> restore_us{0};  // of restores that read something, from end to end
    // Recurrent states; their bytes are part of bytes_written and bytes_read.
    std::atomic<std::uint64_t> states_written{0};
    std::atomic<std::uint64_t> states_read{0};
    std::atomic<std::uint64_t> state_bytes_written{0};
    std::atomic<std::uint64_t> state_bytes_read{0};
    std::atomic<std::uint64_t> states_corrupt{0};
    std::atomic<std::uint64_t> states_missing{0};
    std::atomic<std::uint64_t> manifests_written{0};
    std::atomic<std::uint64_t> save_failures{0};
    std::atomic<std::uint64_t> blocks_corrupt{0};
    std::atomic<std::uint64_t> blocks_missing{0};
    std::atomic<std::uint64_t> manifests_corrupt{0};
    std::atomic<std::uint64_t> manifests_torn{0};          // corrupt after a version that was read
    std::atomic<std::uint64_t> manifests_incompatible{0};  // that no model here can ever use
    std::atomic<std::uint64_t> evictions{0};
    std::atomic<std::uint64_t> saves_out_of_space{0};  // part of save_failures
    std::atomic<std::uint64_t> disk_removals{0};  // memories, of any model, removed for the quota
    std::atomic<std::uint64_t> incompatible_removals{0};  // leftovers removed for it
    std::atomic<std::uint64_t> agents_lost{0};  // left the pool although they could not be saved
    // Part of evictions and of disk_removals: memories that their policies were to keep.
    std::atomic<std::uint64_t> kept_evictions{0};
    std::atomic<std::uint64_t> kept_removals{0};
    std::atomic<std::uint64_t> saves_over_bound{0};  // part of save_failures: see write_bound
    latency_histogram save_time;     // of saves that wrote something, failed ones too
    latency_histogram restore_time;  // as restore_us
    // Gauges.
    std::atomic<std::uint64_t> disk_bytes{0};  // every file in the directory
    std::atomic<std::uint64_t> disk_budget_bytes{0};
};

}  // namespace semantic::storage

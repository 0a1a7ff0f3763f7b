#pragma once
// Counters that the storage layer keeps about itself. Written with relaxed atomics, rendered
// elsewhere.

#include <atomic>
#include <cstdint>

namespace semantic::storage {

struct store_probe {
    std::atomic<std::uint64_t> blocks_written{0};
    std::atomic<std::uint64_t> blocks_read{0};
    std::atomic<std::uint64_t> bytes_written{0};
    std::atomic<std::uint64_t> bytes_read{0};
    std::atomic<std::uint64_t> manifests_written{0};
    std::atomic<std::uint64_t> save_failures{0};
    std::atomic<std::uint64_t> blocks_corrupt{0};
    std::atomic<std::uint64_t> blocks_missing{0};
    std::atomic<std::uint64_t> manifests_corrupt{0};
    std::atomic<std::uint64_t> manifests_incompatible{0};
    std::atomic<std::uint64_t> evictions{0};
};

}  // namespace semantic::storage

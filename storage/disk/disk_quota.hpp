#pragma once
// How many bytes a cache directory holds, and how many it may hold: a budget, and a share of the
// file system that stays free. It decides and counts; agent_cache_store removes. Owner:
// agent_cache_store. Thread: every method is safe from any thread; those marked "Blocks." ask the
// file system. Invariant: held_bytes() counts every file in the directory, its own temporaries
// apart, which promises cover.

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "storage/files/file.hpp"
#include "storage/types/probe.hpp"

namespace semantic::storage {

/// Part of the file system that is never filled: 1 / 20.
constexpr std::uint64_t disk_reserve_divisor = 20;

/// Returns: min(10 % of the file system, 64 GiB).
std::uint64_t default_disk_budget(std::uint64_t file_system_bytes);

struct disk_state {
    std::uint64_t held_bytes = 0;      // by files in the directory
    std::uint64_t promised_bytes = 0;  // to saves that are being written
    std::uint64_t budget_bytes = 0;
    disk_space space{};
};

/// Returns: how many bytes must go before `wanted_bytes` more may be written; 0 when they fit.
std::uint64_t missing_bytes(const disk_state& disk, std::uint64_t wanted_bytes);

class disk_quota {
  public:
    disk_quota(file_system& files, std::string directory, store_probe& probe)
        : files_(files), directory_(std::move(directory)), probe_(probe) {}

    /// Blocks. Sets the budget; 0 means default_disk_budget(). Errors: io.
    result<void> set_budget(std::uint64_t budget_bytes);

    /// Room that a save may fill. Gives back what it has not spent when destroyed.
    class promise {
      public:
        promise(disk_quota& quota, std::uint64_t bytes) : quota_(&quota), bytes_(bytes) {}
        promise(promise&& other) noexcept
            : quota_(other.quota_), bytes_(std::exchange(other.bytes_, 0)) {}
        promise& operator=(promise&&) = delete;
        ~promise() { spend(bytes_); }
        /// Says that `bytes` of it are now counted by add(), or not needed.
        void spend(std::uint64_t bytes);

      private:
        disk_quota* quota_;
        std::uint64_t bytes_;
    };

    /// Blocks. Promises `bytes` when they fit. Returns: how many bytes are missing, 0 when they
    /// were promised; else `what` says what is in the way. Errors: io.
    result<std::uint64_t> try_promise(std::uint64_t bytes, std::string& what);
    bool is_over_budget() const;

    void add(std::uint64_t bytes);
    void remove(std::uint64_t bytes);
    std::uint64_t held_bytes() const;

  private:
    file_system& files_;
    const std::string directory_;
    store_probe& probe_;
    mutable std::mutex mutex_;
    disk_state state_;  // `space` is asked for anew each time
};

}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many bytes a cache directory holds, and how many it may hold: a budget, a share of it for
// records, and a part of the file system that stays free. It decides and counts; agent_cache_store
// removes. Owner: agent_cache_store. Thread: every method is safe from any thread; those marked
// "Blocks." ask the file system. Invariant: held_bytes() counts every file in the directory, its
// own temporaries apart, which promises cover.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "storage/files/file.hpp"
#include "storage/types/probe.hpp"

namespace semantic::storage {

/// Part of the file system that is never filled: 1 / 20.
constexpr std::uint64_t disk_reserve_divisor = 20;

/// Returns: min(10 % of the file system, 64 GiB).
std::uint64_t default_disk_budget(std::uint64_t file_system_bytes);
/// Returns: the records' share of a disk budget: min(a quarter of it, 4 GiB).
std::uint64_t default_record_budget(std::uint64_t disk_budget_bytes);

/// What bytes are reserved for. Memories may take all but the records' share. An upload that is not
/// complete is no memory yet: it takes free bytes only, and a save of a memory does not count it.
enum class disk_use { memory, record, upload };

struct disk_state {
    std::uint64_t held_bytes = 0;      // by files in the directory
    std::uint64_t promised_bytes = 0;  // to saves and records that are being written
    std::uint64_t budget_bytes = 0;
    disk_space space{};
    std::uint64_t record_bytes = 0;         // part of held_bytes: of records
    std::uint64_t record_budget_bytes = 0;  // part of budget_bytes: only records may have it
    std::uint64_t upload_bytes = 0;         // of uploads, which are not in held_bytes
};

/// How much a write exceeds what it may take.
struct disk_shortage {
    std::uint64_t budget_bytes = 0;  // too many for the budget
    std::uint64_t space_bytes = 0;   // too many for the file system
    /// Returns: how many bytes must go before the write may happen; 0 when it fits.
    std::uint64_t missing_bytes() const noexcept {
        return budget_bytes > space_bytes ? budget_bytes : space_bytes;
    }
};
/// Returns: what a write of `wanted_bytes` lacks. `left_free`: bytes of the file system that must
/// stay free.
disk_shortage shortage(const disk_state& disk, disk_use use, std::uint64_t wanted_bytes,
                       std::uint64_t left_free);
/// Returns: the bytes that a write which begins now leaves free: a twentieth of the file system;
/// where other programs have used some of that, what is left. No memory is removed to restore it.
std::uint64_t bytes_to_leave_free(const disk_state& disk);

class disk_quota {
  public:
    disk_quota(file_system& files, std::string directory, store_probe& probe)
        : files_(files), directory_(std::move(directory)), probe_(probe) {}

    /// Blocks. Sets the budgets; 0 means default_disk_budget(), and default_record_budget() of what
    /// that comes to. Errors: io.
    result<void> set_budget(std::uint64_t budget_bytes, std::uint64_t record_budget_bytes = 0);
    std::uint64_t record_budget_bytes() const;

    /// A reservation of disk bytes, which a save spends as it writes. The destructor returns what
    /// was not spent.
    class promise {
      public:
        promise(disk_quota& quota, std::uint64_t bytes) : quota_(&quota), bytes_(bytes) {}
        promise(promise&& other) noexcept
            : quota_(other.quota_), bytes_(std::exchange(other.bytes_, 0)) {}
        promise& operator=(promise&&) = delete;
        ~promise() { spend(bytes_); }
        /// Ends the reservation of `bytes`: they are written and counted by add(), or not needed.
        void spend(std::uint64_t bytes);

      private:
        disk_quota* quota_;
        std::uint64_t bytes_;
    };

    /// The result of asking for a reservation.
    struct answer {
        disk_shortage shortage{};
        disk_space space{};           // as the file system says it
        std::uint64_t left_free = 0;  // as bytes_to_leave_free(), unless it was given
        std::string sentence;         // says what is in the way; empty when nothing is
    };
    /// Blocks. Reserves `bytes` when they fit: then nothing is missing in the answer, and the
    /// caller makes a `promise` of them. `left_free`: that of an earlier answer, when something was
    /// removed since for the same write. Errors: io.
    result<answer> try_promise(std::uint64_t bytes, disk_use use = disk_use::memory,
                               std::optional<std::uint64_t> left_free = {});
    /// Blocks. The same for an upload, whose bytes count from then on until remove_upload().
    result<answer> try_add_upload(std::uint64_t bytes, std::optional<std::uint64_t> left_free = {});
    void remove_upload(std::uint64_t bytes);
    bool is_over_budget() const;

    /// Counts a file that exists now, or one that is gone. Requires of remove(): they were counted.
    void add(std::uint64_t bytes);
    void remove(std::uint64_t bytes);
    /// Counts (or no longer counts) the bytes of a record's file.
    void add_record(std::uint64_t bytes);
    void remove_record(std::uint64_t bytes);
    /// Notes that `bytes` of those that add() counted belong to records.
    void note_record(std::uint64_t bytes);
    std::uint64_t held_bytes() const;
    std::uint64_t promised_bytes() const;

  private:
    result<answer> ask(std::uint64_t bytes, disk_use use, std::uint64_t disk_state::*taken,
                       std::optional<std::uint64_t> left_free);
    void tell_probe();

    file_system& files_;
    const std::string directory_;
    store_probe& probe_;
    mutable std::mutex mutex_;
    disk_state state_;  // `space` is read again each time
};

}  // namespace semantic::storage

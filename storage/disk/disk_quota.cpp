// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/disk_quota.hpp"

#include <algorithm>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

constexpr std::uint64_t default_budget_max = std::uint64_t{64} << 30;
constexpr std::uint64_t default_record_budget_max = std::uint64_t{4} << 30;
constexpr std::uint64_t record_budget_divisor = 4;

/// Returns: by how much `have` is more than `allowed`; 0 where it is not.
std::uint64_t excess(std::uint64_t have, std::uint64_t allowed) {
    return have > allowed ? have - allowed : 0;
}

/// Returns: the sentence that says why there is no room, with all figures. It names no path, since
/// clients read it.
std::string sentence_about(const disk_state& disk, disk_use use, std::uint64_t wanted_bytes) {
    const std::uint64_t share = std::max(disk.record_budget_bytes, disk.record_bytes);
    std::string said = "the cache directory holds " + std::to_string(disk.held_bytes) +
                       " bytes of at most " + std::to_string(disk.budget_bytes);
    if (use == disk_use::memory) said += ", of which " + std::to_string(share) + " are for records";
    said += ", its file system has " + std::to_string(disk.space.free_bytes) +
            " bytes free, of which " +
            std::to_string(disk.space.total_bytes / disk_reserve_divisor) +
            " stay free: no room for " + std::to_string(wanted_bytes) + " more";
    return said;
}

}  // namespace

std::uint64_t default_disk_budget(std::uint64_t file_system_bytes) {
    return std::min(file_system_bytes / 10, default_budget_max);
}

std::uint64_t default_record_budget(std::uint64_t disk_budget_bytes) {
    return std::min(disk_budget_bytes / record_budget_divisor, default_record_budget_max);
}

std::uint64_t bytes_to_leave_free(const disk_state& disk) {
    return std::min(disk.space.total_bytes / disk_reserve_divisor,
                    excess(disk.space.free_bytes, disk.promised_bytes));
}

disk_shortage shortage(const disk_state& disk, disk_use use, std::uint64_t wanted_bytes,
                       std::uint64_t left_free) {
    const std::uint64_t coming = disk.promised_bytes + wanted_bytes;
    std::uint64_t held = disk.held_bytes;
    std::uint64_t allowed = disk.budget_bytes;
    if (use == disk_use::memory) {
        // Memories may take all but the records' share, used or not.
        held -= disk.record_bytes;
        const std::uint64_t share = std::max(disk.record_budget_bytes, disk.record_bytes);
        allowed = excess(disk.budget_bytes, share);
    }
    if (use == disk_use::upload) held += disk.upload_bytes;
    return {excess(held + coming, allowed), excess(left_free + coming, disk.space.free_bytes)};
}

result<void> disk_quota::set_budget(std::uint64_t budget_bytes, std::uint64_t record_budget_bytes) {
    if (budget_bytes == 0) {
        const auto space = files_.space(directory_);
        if (!space) return space.error();
        budget_bytes = default_disk_budget(space->total_bytes);
    }
    if (record_budget_bytes == 0) record_budget_bytes = default_record_budget(budget_bytes);
    std::lock_guard lock(mutex_);
    state_.budget_bytes = budget_bytes;
    state_.record_budget_bytes = std::min(record_budget_bytes, budget_bytes);
    probe_.disk_budget_bytes = budget_bytes;
    return {};
}

std::uint64_t disk_quota::record_budget_bytes() const {
    std::lock_guard lock(mutex_);
    return state_.record_budget_bytes;
}

/// Blocks. Asks the file system for its free space and adds `bytes` to the counter `taken` where
/// they fit. Returns: what is short, if anything. Errors: io.
result<disk_quota::answer> disk_quota::ask(std::uint64_t bytes, disk_use use,
                                           std::uint64_t disk_state::*taken,
                                           std::optional<std::uint64_t> left_free) {
    const auto space = files_.space(directory_);
    if (!space) return space.error();
    std::lock_guard lock(mutex_);
    state_.space = *space;
    answer found{{}, *space, left_free.value_or(bytes_to_leave_free(state_)), {}};
    found.shortage = shortage(state_, use, bytes, found.left_free);
    if (found.shortage.missing_bytes() == 0) {
        state_.*taken += bytes;
        tell_probe();
    } else {
        found.sentence = sentence_about(state_, use, bytes);
    }
    return found;
}

result<disk_quota::answer> disk_quota::try_promise(std::uint64_t bytes, disk_use use,
                                                   std::optional<std::uint64_t> left_free) {
    return ask(bytes, use, &disk_state::promised_bytes, left_free);
}

result<disk_quota::answer> disk_quota::try_add_upload(std::uint64_t bytes,
                                                      std::optional<std::uint64_t> left_free) {
    return ask(bytes, disk_use::upload, &disk_state::upload_bytes, left_free);
}

void disk_quota::remove_upload(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    ASSERT(state_.upload_bytes >= bytes);
    state_.upload_bytes -= bytes;
    tell_probe();
}

void disk_quota::promise::spend(std::uint64_t bytes) {
    // A write may have taken more than was reserved. Only the reservation ends here.
    bytes = std::min(bytes, bytes_);
    bytes_ -= bytes;
    if (bytes == 0) return;
    std::lock_guard lock(quota_->mutex_);
    ASSERT(quota_->state_.promised_bytes >= bytes);
    quota_->state_.promised_bytes -= bytes;
}

bool disk_quota::is_over_budget() const {
    std::lock_guard lock(mutex_);
    return state_.held_bytes > state_.budget_bytes;
}

void disk_quota::add(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    state_.held_bytes += bytes;
    tell_probe();
}

void disk_quota::remove(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    // remove_record() alone takes the bytes of records away.
    ASSERT(state_.held_bytes >= state_.record_bytes + bytes);
    state_.held_bytes -= bytes;
    tell_probe();
}

void disk_quota::add_record(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    state_.held_bytes += bytes;
    state_.record_bytes += bytes;
    tell_probe();
}

void disk_quota::remove_record(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    ASSERT(state_.record_bytes >= bytes && state_.held_bytes >= bytes);
    state_.held_bytes -= bytes;
    state_.record_bytes -= bytes;
    tell_probe();
}

void disk_quota::note_record(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    ASSERT(state_.held_bytes >= state_.record_bytes + bytes);
    state_.record_bytes += bytes;
}

/// Updates the gauge of bytes on disk. Requires: the mutex is held.
void disk_quota::tell_probe() { probe_.disk_bytes = state_.held_bytes + state_.upload_bytes; }

std::uint64_t disk_quota::promised_bytes() const {
    std::lock_guard lock(mutex_);
    return state_.promised_bytes;
}

std::uint64_t disk_quota::held_bytes() const {
    std::lock_guard lock(mutex_);
    return state_.held_bytes;
}

}  // namespace semantic::storage

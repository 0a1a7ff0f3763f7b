#include "storage/disk/disk_quota.hpp"

#include <algorithm>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

constexpr std::uint64_t default_budget_max = std::uint64_t{64} << 30;

std::uint64_t excess(std::uint64_t have, std::uint64_t allowed) {
    return have > allowed ? have - allowed : 0;
}

}  // namespace

std::uint64_t default_disk_budget(std::uint64_t file_system_bytes) {
    return std::min(file_system_bytes / 10, default_budget_max);
}

std::uint64_t missing_bytes(const disk_state& disk, std::uint64_t wanted_bytes) {
    const std::uint64_t coming = disk.promised_bytes + wanted_bytes;
    const std::uint64_t kept_free = disk.space.total_bytes / disk_reserve_divisor;
    return std::max(excess(disk.held_bytes + coming, disk.budget_bytes),
                    excess(kept_free + coming, disk.space.free_bytes));
}

result<void> disk_quota::set_budget(std::uint64_t budget_bytes) {
    if (budget_bytes == 0) {
        const auto space = files_.space(directory_);
        if (!space) return space.error();
        budget_bytes = default_disk_budget(space->total_bytes);
    }
    std::lock_guard lock(mutex_);
    state_.budget_bytes = budget_bytes;
    probe_.disk_budget_bytes = budget_bytes;
    return {};
}

result<std::uint64_t> disk_quota::try_promise(std::uint64_t bytes, std::string& what) {
    const auto space = files_.space(directory_);
    if (!space) return space.error();
    std::lock_guard lock(mutex_);
    state_.space = *space;
    const std::uint64_t missing = missing_bytes(state_, bytes);
    if (missing == 0) {
        state_.promised_bytes += bytes;
        return missing;
    }
    what = directory_ + " holds " + std::to_string(state_.held_bytes) + " bytes of at most " +
           std::to_string(state_.budget_bytes) + ", its file system has " +
           std::to_string(space->free_bytes) + " bytes free, of which " +
           std::to_string(space->total_bytes / disk_reserve_divisor) + " stay free: no room for " +
           std::to_string(bytes) + " more";
    return missing;
}

void disk_quota::promise::spend(std::uint64_t bytes) {
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
    probe_.disk_bytes = state_.held_bytes;
}

void disk_quota::remove(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    ASSERT(state_.held_bytes >= bytes);
    state_.held_bytes -= bytes;
    probe_.disk_bytes = state_.held_bytes;
}

std::uint64_t disk_quota::held_bytes() const {
    std::lock_guard lock(mutex_);
    return state_.held_bytes;
}

}  // namespace semantic::storage

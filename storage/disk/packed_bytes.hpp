// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files in a cache directory that are no store's and count in its disk budget all the same: packed
// weights. Thread: any.

#include <cstdint>

namespace semantic::storage {

class directory_share;

/// Folder of packed weights in a cache directory. A store that opens the directory counts it.
inline constexpr const char* packed_folder_name = "packed";
/// Returns: the share of a disk budget that packed weights may take unless an option sets another
/// one: half.
constexpr std::uint64_t default_packed_budget(std::uint64_t disk_budget_bytes) noexcept {
    return disk_budget_bytes / 2;
}

/// Adds `change` bytes (less than 0: removes them) to what packed weights take of the disk budget.
/// Opening the directory counts what is there, so this is for later changes. Does nothing where no
/// store has the directory open.
void change_packed_bytes(directory_share& share, std::int64_t change);

}  // namespace semantic::storage

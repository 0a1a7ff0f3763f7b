// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files in a cache directory that are no store's and count in its disk budget all the same: packed
// weights. Thread: any.

#include <cstdint>

namespace semantic::storage {

class directory_share;

/// Folder of packed weights in a cache directory. A store that opens the directory counts it.
inline constexpr const char* packed_folder_name = "packed";
/// Of a disk budget, what packed weights may take unless somebody says otherwise: half.
constexpr std::uint64_t default_packed_budget(std::uint64_t disk_budget_bytes) noexcept {
    return disk_budget_bytes / 2;
}

/// Says that packed weights take so many bytes more, or less, than when this was last said or the
/// directory was opened. Does nothing where no store has it open.
void change_packed_bytes(directory_share& share, std::int64_t change);

}  // namespace semantic::storage

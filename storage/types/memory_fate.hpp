// SPDX-License-Identifier: Apache-2.0
#pragma once
// How an agent's memory left the place where it was.

namespace semantic::storage {

enum class memory_fate {
    evicted,  // from the pool; it is on disk
    lost,     // from the pool; the disk did not take it
    removed,  // from disk, to keep the budget
};

}  // namespace semantic::storage

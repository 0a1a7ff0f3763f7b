// SPDX-License-Identifier: Apache-2.0
#pragma once
// One hash over everything that shapes a KV cache. Two servers with the same fingerprint may read
// each other's blocks; any difference makes a stored cache a miss with a reason, never a guess.

#include <string_view>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

/// XXH3-128 over the fields, each preceded by its length as 8 little-endian bytes, so that ("ab",
/// "c") differs from ("a", "bc").
storage::block_hash fingerprint(const std::vector<std::string_view>& fields);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What agents' policies come to when something has to go: who is kept, and how much of it a tenant
// may have. Pure.

#include <chrono>
#include <cstdint>
#include <vector>

#include "storage/types/ids.hpp"
#include "storage/types/memory_policy.hpp"

namespace semantic::storage {

/// Returns: what a policy asks for at the time `now`. "Keep" ends when the memory was not used for
/// as long as the policy says.
memory_claim claim_of(const memory_policy& policy, std::chrono::system_clock::time_point last_used,
                      std::chrono::system_clock::time_point now);

/// A memory whose policy asks to keep or pin it.
struct claimant {
    tenant_id tenant{};
    std::chrono::system_clock::time_point last_used{};
    std::uint64_t bytes = 0;
    memory_claim* claim = nullptr;
};

/// Grants each tenant claims of at most `share_bytes` and sets the rest to `none`. Pinned memories
/// are granted first, then kept ones; of each those used last come first. One that does not fit is
/// passed over, and a smaller one after it may fit.
void cut_to_share(std::vector<claimant> all, std::uint64_t share_bytes);

}  // namespace semantic::storage

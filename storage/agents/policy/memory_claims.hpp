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

/// A policy runs out when the memory was not used for as long as it says.
memory_claim claim_of(const memory_policy& policy, std::chrono::system_clock::time_point last_used,
                      std::chrono::system_clock::time_point now);

/// A memory that is kept or pinned.
struct claimant {
    tenant_id tenant{};
    std::chrono::system_clock::time_point last_used{};
    std::uint64_t bytes = 0;
    memory_claim* claim = nullptr;
};

/// Sets the claims to `none` that exceed what a tenant may claim: its pinned memories come first,
/// then the kept ones, of each those first that were used last. One that does not fit is passed
/// over; smaller ones after it may fit.
void cut_to_share(std::vector<claimant> all, std::uint64_t share_bytes);

}  // namespace semantic::storage

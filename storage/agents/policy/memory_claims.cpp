// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/policy/memory_claims.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace semantic::storage {

using std::chrono::system_clock;

memory_claim claim_of(const memory_policy& policy, system_clock::time_point last_used,
                      system_clock::time_point now) {
    if (policy.pinned.value_or(false)) return memory_claim::pinned;
    if (!policy.keep_seconds) return memory_claim::none;
    // 0 seconds is a wish of its own: give this memory up before those without a policy.
    if (policy.keep_seconds->count() <= 0) return memory_claim::first_to_go;
    // Ages are compared, because last_used + keep_seconds could overflow.
    return now - last_used < *policy.keep_seconds ? memory_claim::kept : memory_claim::none;
}

void cut_to_share(std::vector<claimant> all, std::uint64_t share_bytes) {
    std::ranges::sort(all, [](const claimant& a, const claimant& b) {
        return std::tie(*b.claim, b.last_used) < std::tie(*a.claim, a.last_used);
    });
    std::map<tenant_id, std::uint64_t> claimed;
    for (const claimant& each : all) {
        std::uint64_t& sum = claimed[each.tenant];
        // `sum` is at most `share_bytes`, so the difference does not wrap around.
        if (each.bytes > share_bytes - sum)
            *each.claim = memory_claim::none;
        else
            sum += each.bytes;
    }
}

}  // namespace semantic::storage

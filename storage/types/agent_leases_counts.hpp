// SPDX-License-Identifier: Apache-2.0
#pragma once
// What became of leases of agents among nodes that share an object store.

#include <cstdint>

namespace semantic::storage {

struct agent_leases_counts {
    std::uint64_t held = 0;        // now
    std::uint64_t taken = 0;       // since the start
    std::uint64_t elsewhere = 0;   // that another node had
    std::uint64_t lost = 0;        // ran out, and another node has them
    std::uint64_t unanswered = 0;  // Redis did not say who has one
};

}  // namespace semantic::storage

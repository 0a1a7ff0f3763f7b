// SPDX-License-Identifier: Apache-2.0
#pragma once
// What passes between a cache directory and the object store that it shares with other machines.

#include <cstdint>

namespace semantic::storage {

/// Since the start.
struct shared_agents_counts {
    std::uint64_t agents_uploaded = 0;
    std::uint64_t blocks_uploaded = 0;
    std::uint64_t bytes_uploaded = 0;
    std::uint64_t agents_fetched = 0;
    std::uint64_t bytes_fetched = 0;
    std::uint64_t failures = 0;    // of uploads, which are tried again
    std::uint64_t conflicts = 0;   // manifests that another machine has gone on from
    std::uint64_t forks = 0;       // of the turns that lost
    std::uint64_t checks = 0;      // of an agent's version, by refresh()
    std::uint64_t unanswered = 0;  // of them, those that the object store did not answer
    std::uint64_t erased = 0;      // agents that another machine has erased
    std::uint64_t evicted = 0;     // from the pool, since another machine has gone on
    std::uint64_t left_out = 0;    // beyond pending_max
    std::uint64_t pending = 0;

    shared_agents_counts operator+(const shared_agents_counts& other) const {
        return {agents_uploaded + other.agents_uploaded,
                blocks_uploaded + other.blocks_uploaded,
                bytes_uploaded + other.bytes_uploaded,
                agents_fetched + other.agents_fetched,
                bytes_fetched + other.bytes_fetched,
                failures + other.failures,
                conflicts + other.conflicts,
                forks + other.forks,
                checks + other.checks,
                unanswered + other.unanswered,
                erased + other.erased,
                evicted + other.evicted,
                left_out + other.left_out,
                pending + other.pending};
    }
};

}  // namespace semantic::storage

#pragma once
// What clients may have in a server's RAM, apart from the agents' memory: their sessions, runs and
// responses. All of these bounds follow the memory that the process may have, so that the memory
// plan can count them. Thread: any.

#include <cstddef>
#include <cstdint>

#include "server/coordination/run_registry.hpp"
#include "server/coordination/session_registry.hpp"
#include "server/responses/background_runs.hpp"
#include "server/responses/response_registry.hpp"

namespace semantic::server {

struct client_memory {
    session_bounds sessions;
    /// Of each of three kinds: stored responses, those that are not stored, conversations.
    std::size_t response_bytes = 0;
    run_bounds runs;
    background_limits background;

    /// Bytes that all clients may take together.
    std::uint64_t sum() const noexcept;
    /// For a process that may have `limit_bytes`; 0: as much as it likes. At most a quarter of
    /// a limit of 800 MiB or more, 704 MiB at most and 100 MiB at least.
    static client_memory choose(std::uint64_t limit_bytes) noexcept;
};

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds on what clients take in RAM, apart from the agents' memory: connections, bodies and forms
// (compiled output grammars), sessions, runs and responses. All of them follow the memory that the
// process may have, so that the memory plan can count them. Thread: any.

#include <cstddef>
#include <cstdint>

#include "server/config/config.hpp"
#include "server/coordination/run_registry.hpp"
#include "server/coordination/session_registry.hpp"
#include "server/responses/background_runs.hpp"
#include "server/responses/response_registry.hpp"

namespace semantic::server {

struct client_memory {
    session_bounds sessions;
    /// For each of three kinds: stored responses, responses of open WebSockets, conversations.
    std::size_t response_bytes = 0;
    run_bounds runs;
    background_limits background;
    std::size_t connections = 0;    // at most
    std::size_t body_bytes = 0;     // of bodies that are read at once; a whole one fits
    std::size_t request_bytes = 0;  // what one request may take for work such as compiling its form
    std::size_t kept_form_bytes = 0;  // of the form of one running answer, between two tokens

    /// What sessions, runs and responses take at most, in bytes: a quarter of a limit of 800 MiB or
    /// more, less of a smaller one; 84 to 704 MiB.
    std::uint64_t kept_bytes() const noexcept;
    /// What connections and the bodies being read take at most, in bytes.
    std::uint64_t connection_bytes() const noexcept;
    /// What the forms of `answers` running answers and those being compiled take at most, in bytes.
    std::uint64_t form_bytes(int answers) const noexcept;
    /// Chooses the bounds for a process that may have `limit_bytes`; 0: no limit. `settings`: the
    /// most connections and the largest body.
    static client_memory choose(std::uint64_t limit_bytes, const config& settings) noexcept;
};

}  // namespace semantic::server

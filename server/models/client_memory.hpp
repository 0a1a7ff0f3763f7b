// SPDX-License-Identifier: Apache-2.0
#pragma once
// What clients may have in a server's RAM, apart from the agents' memory: their connections, bodies
// and forms, and their sessions, runs and responses. All of these bounds follow the memory that the
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
    /// Of each of three kinds: stored responses, those that are not stored, conversations.
    std::size_t response_bytes = 0;
    run_bounds runs;
    background_limits background;
    std::size_t connections = 0;      // at most
    std::size_t body_bytes = 0;       // of bodies that are read at once; a whole one fits
    std::size_t request_bytes = 0;    // of one request's budget: what its form is compiled in
    std::size_t kept_form_bytes = 0;  // of a running answer's form, between two tokens

    /// Bytes of sessions, runs and responses: at most a quarter of a limit of 800 MiB or more, less
    /// of a smaller one, 704 MiB at most and 84 MiB at least.
    std::uint64_t kept_bytes() const noexcept;
    /// Bytes of connections and of bodies that are read at once.
    std::uint64_t connection_bytes() const noexcept;
    /// Bytes of `answers` that are held to forms, and of forms that are compiled at once.
    std::uint64_t form_bytes(int answers) const noexcept;
    /// For a process that may have `limit_bytes`; 0: as much as it likes. `settings` say how many
    /// connections and how large a body may be at most.
    static client_memory choose(std::uint64_t limit_bytes, const config& settings) noexcept;
};

}  // namespace semantic::server

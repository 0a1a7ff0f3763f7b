// SPDX-License-Identifier: Apache-2.0
#include "server/models/client_memory.hpp"

#include <algorithm>

#include "engine/grammar/output_constraint.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::server {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
// Stored responses, conversations, and the latest responses of open WebSockets: each may take
// response_bytes.
constexpr std::size_t kinds_of_responses = 3;
// Memory of one connection: bytes read ahead, buffers and coroutines.
constexpr std::size_t bytes_per_connection = 80 * 1024;
// As http_limits::bodies_at_once.
constexpr std::size_t bodies_at_once = 4;
// As the threads that compile them (app.cpp).
constexpr std::uint64_t forms_compiled_at_once = 2;
// With less memory than this the bounds fall faster, to their least values at half of it.
constexpr std::uint64_t small_limit = 800 * mib;

}  // namespace

client_memory client_memory::choose(std::uint64_t limit_bytes, const config& settings) noexcept {
    const std::size_t body = settings.body_limit_mb * mib;
    client_memory chosen;
    chosen.response_bytes = responses_bytes_max;
    chosen.connections = settings.max_connections;
    chosen.body_bytes = bodies_at_once * body;
    chosen.request_bytes = storage::work_budget::bytes_default;
    chosen.kept_form_bytes = engine::output_constraint::kept_automaton_bytes_max;
    if (limit_bytes == 0) return chosen;
    const auto share = [](std::uint64_t bytes, std::size_t least, std::size_t most) {
        // An option may allow less than the least that is wanted here.
        return std::clamp(static_cast<std::size_t>(bytes), std::min(least, most), most);
    };
    chosen.connections = share(limit_bytes / 16 / bytes_per_connection, 16, chosen.connections);
    chosen.body_bytes = share(limit_bytes / 7, body, chosen.body_bytes);
    chosen.request_bytes = share(limit_bytes / 25, 16 * mib, chosen.request_bytes);
    chosen.kept_form_bytes = share(limit_bytes / 400, mib, chosen.kept_form_bytes);
    // Every bound is a part of `base`: at least what one client needs to do anything, at most what
    // a server without a limit gives. `base` is the limit itself, but falls from 800 MiB to 0
    // between a limit of 800 MiB and one of 400 MiB.
    const std::uint64_t base = limit_bytes >= small_limit      ? limit_bytes
                               : 2 * limit_bytes > small_limit ? 2 * limit_bytes - small_limit
                                                               : 0;
    const auto part = [&](std::uint64_t divisor, std::size_t least, std::size_t most) {
        return share(base / divisor, least, most);
    };
    chosen.sessions.all_bytes = part(12, 16 * mib, chosen.sessions.all_bytes);
    chosen.sessions.tenant_bytes = part(24, 8 * mib, chosen.sessions.tenant_bytes);
    chosen.response_bytes = part(48, 4 * mib, chosen.response_bytes);
    chosen.runs.all_bytes = part(24, 24 * mib, chosen.runs.all_bytes);
    chosen.runs.tenant_bytes = part(48, 12 * mib, chosen.runs.tenant_bytes);
    background_limits& background = chosen.background;
    background.request_bytes = part(48, 16 * mib, background.request_bytes);
    background.request_bytes_of_tenant = part(96, 16 * mib, background.request_bytes_of_tenant);
    background.event_bytes_of_one = part(192, 4 * mib, background.event_bytes_of_one);
    background.open_event_bytes = part(96, 8 * mib, background.open_event_bytes);
    background.event_bytes = part(96, 8 * mib, background.event_bytes);
    return chosen;
}

std::uint64_t client_memory::connection_bytes() const noexcept {
    return connections * bytes_per_connection + body_bytes;
}

std::uint64_t client_memory::form_bytes(int answers) const noexcept {
    return static_cast<std::uint64_t>(std::max(answers, 0)) * kept_form_bytes +
           forms_compiled_at_once * request_bytes;
}

std::uint64_t client_memory::kept_bytes() const noexcept {
    return sessions.all_bytes + kinds_of_responses * response_bytes + runs.all_bytes +
           background.request_bytes + background.open_event_bytes + background.event_bytes;
}

}  // namespace semantic::server

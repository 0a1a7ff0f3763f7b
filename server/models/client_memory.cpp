#include "server/models/client_memory.hpp"

#include <algorithm>

namespace semantic::server {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t kinds_of_responses = 3;

}  // namespace

client_memory client_memory::choose(std::uint64_t limit_bytes) noexcept {
    client_memory chosen;
    chosen.response_bytes = responses_bytes_max;
    if (limit_bytes == 0) return chosen;
    // A part of the limit, no less than what one client needs to do anything, and no more than what
    // a server without a limit gives.
    const auto part = [&](std::uint64_t divisor, std::size_t least, std::size_t most) {
        return std::clamp(static_cast<std::size_t>(limit_bytes / divisor), least, most);
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
    background.open_event_bytes = part(96, 16 * mib, background.open_event_bytes);
    background.event_bytes = part(96, 16 * mib, background.event_bytes);
    return chosen;
}

std::uint64_t client_memory::sum() const noexcept {
    return sessions.all_bytes + kinds_of_responses * response_bytes + runs.all_bytes +
           background.request_bytes + background.open_event_bytes + background.event_bytes;
}

}  // namespace semantic::server

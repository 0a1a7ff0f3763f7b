// SPDX-License-Identifier: Apache-2.0
#pragma once
// The viewers of the live page, and what each may see.

#include <chrono>
#include <compare>
#include <optional>
#include <string>

#include "protocol/live/events.hpp"
#include "protocol/live/state.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

struct viewer {
    bool is_admin = false;    // sees all tenants
    std::string credential;   // else whose agents they see; see credential_of()
    bool sees_nodes = false;  // that share the object store, with their addresses
    auto operator<=>(const viewer&) const = default;
};

/// Absent: no engine is there that could say whose tenant it is.
std::optional<protocol::live::viewpoint> viewpoint_of(const viewer& viewer,
                                                      const engine_lease& engine);

/// The agents, sessions and runs that somebody with this viewpoint sees, into `now`. As much work
/// as there are agents.
void look_at_agents(const services& server, const protocol::live::viewpoint& from,
                    const engine::engine& engine, protocol::live::shown_state& now);
/// {"phase","running","target","why","fraction","known":[{"id","failure"}]}
std::string model_text(const services& server);
/// Counters, and what the pool holds. As much work as there are agents.
protocol::live::pool_gauges pool_of(const engine::engine& engine);

}  // namespace semantic::server

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

/// Somebody who looks at the live page, and what they may see.
struct viewer {
    bool is_admin = false;    // sees all tenants
    std::string credential;   // else whose agents they see; see credential_of()
    bool sees_nodes = false;  // that share the object store, with their addresses
    auto operator<=>(const viewer&) const = default;
};

/// Which tenant's data the viewer sees. Nothing, where a key's tenant cannot be found because no
/// engine is loaded.
std::optional<protocol::live::viewpoint> viewpoint_of(const viewer& viewer,
                                                      const engine_lease& engine);

/// Writes the agents, sessions and runs that are seen from this viewpoint into `now`. Takes time in
/// proportion to the number of agents.
void look_at_agents(const services& server, const protocol::live::viewpoint& from,
                    const engine::engine& engine, protocol::live::shown_state& now);
/// The state of the models:
/// {"phase","running","target","why","fraction","known":[{"id","failure"}]}
std::string model_text(const services& server);
/// What the pool holds. Takes time in proportion to the number of agents.
protocol::live::pool_gauges pool_of(const engine::engine& engine);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/agent_claims.hpp"

#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

namespace {

// When to ask again for an agent that another node is at work on.
constexpr std::chrono::seconds retry_after{1};

}  // namespace

std::optional<failed> agent_claims::claim(const storage::agent_id& agent,
                                          storage::agent_leases::lease& lease) const {
    if (leases_ == nullptr) return std::nullopt;
    auto claimed = leases_->take(storage::shared_name_of(store_, agent));
    // Null if another node has the agent, or if Redis does not answer.
    lease = std::move(claimed.mine);
    if (!claimed.is_elsewhere || when_held_ == held_elsewhere::serve) return std::nullopt;
    failed why{failure_kind::overloaded, "another server is at work on agent " + agent.str(),
               retry_after};
    if (when_held_ == held_elsewhere::redirect) why.elsewhere = std::move(claimed.url);
    return why;
}

storage::agent_leases::lease agent_claims::share(const storage::agent_id& agent) const {
    if (leases_ == nullptr) return nullptr;
    return leases_->share(storage::shared_name_of(store_, agent));
}

}  // namespace semantic::engine

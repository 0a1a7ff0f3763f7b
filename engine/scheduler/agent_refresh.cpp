#include "engine/scheduler/agent_refresh.hpp"

#include <chrono>

#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

namespace {

// When to ask again for an agent whose newest memory cannot be found.
constexpr std::chrono::seconds retry_after{2};

}  // namespace

void agent_refresh::begin(const job_ptr& work) {
    if (services_.shared != nullptr && work->request.agent)
        refresh(work, *work->request.agent);
    else
        services_.arrive(work);
}

void agent_refresh::refresh(const job_ptr& work, const storage::agent_id& agent) {
    const bool queued = services_.post(agent, [this, work, agent] {
        if (agent == *work->request.agent)
            if (auto why = services_.claims.claim(agent, work->lease))
                return services_.refuse(work, std::move(*why));
        if (!services_.is_extended(agent, *work)) {
            const auto found = services_.shared->refresh(agent);
            if (has_answered_.exchange(found.has_value()) && !found)
                services_.warn("what other machines know of agents is not found: " +
                               found.error().what);
            if (!found && work->request.append)
                return services_.refuse(work, {failure_kind::overloaded,
                                               "the newest memory of agent " + agent.str() +
                                                   " cannot be found in the object store now",
                                               retry_after});
        }
        const auto& parent = work->request.parent;
        const bool needs_parent = parent && agent != *parent && !services_.store.find(agent);
        if (needs_parent)
            refresh(work, *parent);
        else
            services_.arrive(work);
    });
    if (queued) return;
    if (work->request.append)
        services_.refuse(work, {failure_kind::overloaded,
                                "the newest memory of agent " + agent.str() +
                                    " cannot be found: too much disk work is waiting",
                                retry_after});
    else
        services_.arrive(work);
}

}  // namespace semantic::engine

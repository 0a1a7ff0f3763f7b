// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/agent_refresh.hpp"

#include <chrono>

#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

namespace {

// When to ask again for an agent whose newest memory cannot be found.
constexpr std::chrono::seconds refresh_again_after{2};

}  // namespace

void agent_refresh::begin(const job_ptr& work) {
    if (shared_ != nullptr && work->request.agent)
        refresh(work, *work->request.agent);
    else
        outputs_.arrive(work);
}

// An agent that is neither here nor in the object store is new: then its parent is fetched, by a
// second call on the parent's strand.
void agent_refresh::refresh(const job_ptr& work, const storage::agent_id& agent) {
    const bool queued = outputs_.post(agent, [this, work, agent] {
        // Only the agent that the request extends is claimed; its parent is only read.
        if (agent == *work->request.agent)
            if (auto why = claims_.claim(agent, work->lease))
                return outputs_.refuse(work, std::move(*why));
        if (!outputs_.is_extended(agent, *work)) {
            const auto found = shared_->refresh(agent);
            if (has_answered_.exchange(found.has_value()) && !found)
                outputs_.warn("what other machines know of agents is not found: " +
                              found.error().what);
            // Any other request has all its messages, and can continue from an older memory.
            if (!found && work->request.append)
                return outputs_.refuse(work, {failure_kind::overloaded,
                                              "the newest memory of agent " + agent.str() +
                                                  " cannot be found in the object store now",
                                              refresh_again_after});
        }
        const auto& parent = work->request.parent;
        const bool needs_parent = parent && agent != *parent && !store_.find(agent);
        if (needs_parent)
            refresh(work, *parent);
        else
            outputs_.arrive(work);
    });
    if (queued) return;
    // The strand's queue is full. As after a failed refresh, only an append needs the newest
    // memory.
    if (work->request.append)
        outputs_.refuse(work, {failure_kind::overloaded,
                               "the newest memory of agent " + agent.str() +
                                   " cannot be found: too much disk work is waiting",
                               refresh_again_after});
    else
        outputs_.arrive(work);
}

}  // namespace semantic::engine

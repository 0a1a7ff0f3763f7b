#include "engine/scheduler/agent_saves.hpp"

#include <algorithm>
#include <vector>

#include "engine/scheduler/telling.hpp"
#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

void agent_saves::save(const storage::agent_id& agent, request_id waiting,
                       storage::save_extent extent) {
    services_.take_hold();
    const auto keep = [this, agent, waiting, extent, held = services_.claims.share(agent)] {
        save_now(agent, waiting, extent, held);
        services_.release_hold();
    };
    if (services_.post(agent, keep)) return;
    services_.release_hold();
    refused_.store(true);
    if (waiting != 0) services_.gate->saved(waiting, false);
}

void agent_saves::save_now(const storage::agent_id& agent, request_id waiting,
                           storage::save_extent extent, const lease& held) {
    const auto began = std::chrono::steady_clock::now();
    auto report = services_.store.save(agent, extent);
    tell_save(agent, report, began, services_.probe);
    if (!report) services_.warn("could not save agent " + agent.str() + ": " + report.error().what);
    if (report && extent == storage::save_extent::everything)
        saved(agent, waiting, held);
    else if (waiting != 0)
        services_.gate->saved(waiting, report.has_value());
    if (std::string message = services_.store.take_warning(); !message.empty()) {
        services_.warn(std::move(message));
        refused_.store(true);  // what was on disk may be so no more
    }
    trim_hot_agents();
    if (refused_.exchange(false))
        for (const storage::agent_id& dirty : services_.store.dirty_agents()) save(dirty, 0);
}

void agent_saves::saved(const storage::agent_id& agent, request_id waiting, const lease& held) {
    // No other node goes on with the agent until the object store has this turn.
    std::function<void(bool)> uploaded;
    if (held != nullptr) uploaded = [held](bool) {};
    if (services_.shared != nullptr && services_.shared_wait.count() > 0 && waiting != 0)
        uploaded = [to = std::weak_ptr(services_.gate), waiting, held](bool is_there) {
            if (const auto gate = to.lock()) gate->saved(waiting, is_there);
        };
    else if (waiting != 0)
        services_.gate->saved(waiting, true);
    if (services_.shared != nullptr) services_.shared->note_saved(agent, std::move(uploaded));
}

// --max-hot-agents: beyond it the least recently used agents live on disk only.
void agent_saves::trim_hot_agents() {
    if (services_.max_hot_agents <= 0) return;
    std::vector<storage::agent_summary> hot = services_.store.list();
    std::erase_if(hot, [](const auto& agent) { return agent.tier != storage::memory_tier::hot; });
    std::sort(hot.begin(), hot.end(),
              [](const auto& a, const auto& b) { return a.last_used < b.last_used; });
    const auto kept = static_cast<std::size_t>(services_.max_hot_agents);
    for (std::size_t i = 0; i + kept < hot.size(); ++i) services_.store.evict(hot[i].id);
}

}  // namespace semantic::engine

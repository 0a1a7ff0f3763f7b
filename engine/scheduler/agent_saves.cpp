#include "engine/scheduler/agent_saves.hpp"

#include <algorithm>
#include <vector>

#include "engine/scheduler/telling.hpp"
#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

void agent_saves::save(const storage::agent_id& agent, request_id waiting,
                       storage::save_extent extent) {
    around_.take_hold();
    const auto keep = [this, agent, waiting, extent, held = around_.claims.share(agent)] {
        save_now(agent, waiting, extent, held);
        around_.release_hold();
    };
    if (around_.post(agent, keep)) return;
    around_.release_hold();
    refused_.store(true);
    if (waiting != 0) around_.gate->saved(waiting, false);
}

void agent_saves::save_now(const storage::agent_id& agent, request_id waiting,
                           storage::save_extent extent, const lease& held) {
    const auto began = std::chrono::steady_clock::now();
    auto report = around_.store.save(agent, extent);
    tell_save(agent, report, began, around_.probe);
    if (!report) around_.warn("could not save agent " + agent.str() + ": " + report.error().what);
    if (report && extent == storage::save_extent::everything)
        saved(agent, waiting, held);
    else if (waiting != 0)
        around_.gate->saved(waiting, report.has_value());
    if (std::string what = around_.store.take_warning(); !what.empty()) {
        around_.warn(std::move(what));
        refused_.store(true);  // what was on disk may be so no more
    }
    trim_hot_agents();
    if (refused_.exchange(false))
        for (const storage::agent_id& dirty : around_.store.dirty_agents()) save(dirty, 0);
}

void agent_saves::saved(const storage::agent_id& agent, request_id waiting, const lease& held) {
    // No other node goes on with the agent until the object store has this turn.
    std::function<void(bool)> uploaded;
    if (held != nullptr) uploaded = [held](bool) {};
    if (around_.shared != nullptr && around_.shared_wait.count() > 0 && waiting != 0)
        uploaded = [to = std::weak_ptr(around_.gate), waiting, held](bool is_there) {
            if (const auto gate = to.lock()) gate->saved(waiting, is_there);
        };
    else if (waiting != 0)
        around_.gate->saved(waiting, true);
    if (around_.shared != nullptr) around_.shared->note_saved(agent, std::move(uploaded));
}

// --max-hot-agents: beyond it the least recently used agents live on disk only.
void agent_saves::trim_hot_agents() {
    if (around_.max_hot_agents <= 0) return;
    std::vector<storage::agent_summary> hot = around_.store.list();
    std::erase_if(hot, [](const auto& agent) { return agent.tier != storage::memory_tier::hot; });
    std::sort(hot.begin(), hot.end(),
              [](const auto& a, const auto& b) { return a.last_used < b.last_used; });
    const auto kept = static_cast<std::size_t>(around_.max_hot_agents);
    for (std::size_t i = 0; i + kept < hot.size(); ++i) around_.store.evict(hot[i].id);
}

}  // namespace semantic::engine

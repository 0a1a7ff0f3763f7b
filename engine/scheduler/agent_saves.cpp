// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/agent_saves.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "engine/scheduler/telling.hpp"
#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

void agent_saves::save(const storage::agent_id& agent, request_id waiting,
                       storage::save_extent extent) {
    services_.outputs.begin_save();
    // `held` keeps this node's lease on the agent until the save has ended.
    const auto save_held = [this, agent, waiting, extent, held = services_.claims.share(agent)] {
        save_now(agent, waiting, extent, held);
        services_.outputs.release_blocks();
    };
    if (services_.outputs.post(agent, save_held)) return;
    services_.outputs.release_blocks();
    must_save_again_.store(true);
    if (waiting != 0) services_.gate->end_save(waiting, {unsaved_reason::failed});
}

void agent_saves::drop(const storage::agent_id& agent, request_id waiting) {
    services_.outputs.begin_save();
    // `held` is not used: its copy keeps the lease on the agent until the removal has ended.
    const auto drop_held = [this, agent, waiting, held = services_.claims.share(agent)] {
        drop_now(agent, waiting);
        services_.outputs.release_blocks();
    };
    if (services_.outputs.post(agent, drop_held)) return;
    services_.outputs.release_blocks();
    // Unlike a save, a removal is not tried again.
    if (waiting != 0) services_.gate->end_save(waiting, {unsaved_reason::failed});
}

// Removes the agent on its strand: first from the object store, because otherwise a refresh would
// fetch it from there again, then from this machine.
void agent_saves::drop_now(const storage::agent_id& agent, request_id waiting) {
    if (services_.shared != nullptr)
        if (const auto gone = services_.shared->forget(agent); !gone)
            services_.outputs.warn("the object store has not forgotten agent " + agent.str() +
                                   ": " + gone.error().what);
    const auto gone = services_.store.erase(agent);
    // An agent that is gone already, or was never saved, counts as dropped.
    const bool has_failed = !gone && gone.error().code != storage::errc::not_found;
    if (has_failed)
        services_.outputs.warn("could not drop agent " + agent.str() + ": " + gone.error().what);
    if (waiting == 0) return;
    services_.gate->end_save(waiting,
                             {has_failed ? unsaved_reason::failed : unsaved_reason::dropped});
}

storage::agent_cache_store::written_bytes agent_saves::end_turn(const storage::agent_id& agent) {
    const auto written = services_.store.end_turn(agent);
    services_.probe.turns_saved.fetch_add(1, std::memory_order_relaxed);
    services_.probe.turn_bytes_written.fetch_add(written.of_turn, std::memory_order_relaxed);
    std::uint64_t most = services_.probe.turn_bytes_written_max.load(std::memory_order_relaxed);
    while (most < written.of_turn &&
           !services_.probe.turn_bytes_written_max.compare_exchange_weak(most, written.of_turn)) {
    }
    return written;
}

void agent_saves::save_now(const storage::agent_id& agent, request_id waiting,
                           storage::save_extent extent, const lease& held) {
    const auto began = std::chrono::steady_clock::now();
    auto report = services_.store.save(agent, extent);
    tell_save(agent, report, began, services_.probe);
    // Once the day's limit on written bytes is reached every save of the day fails: only the first
    // one warns. Only the save at a request's end (`waiting`) closes the turn's account: earlier
    // saves of the turn add to it.
    const auto end = waiting != 0 ? end_turn(agent) : storage::agent_cache_store::written_bytes{};
    if (!report && !(end.is_over_bound && has_warned_of_bound_.exchange(true)))
        services_.outputs.warn("could not save agent " + agent.str() + ": " + report.error().what);
    if (report && report->bytes_written > 0) has_warned_of_bound_.store(false);
    const written_bytes written{end.of_turn, end.in_all};
    // A save of the full blocks is not uploaded: a complete one follows when the turn ends.
    if (report && extent == storage::save_extent::everything)
        report_save(agent, waiting, held, written);
    else if (waiting != 0)
        services_.gate->end_save(waiting, {report              ? unsaved_reason::none
                                           : end.is_over_bound ? unsaved_reason::over_bound
                                                               : unsaved_reason::failed,
                                           written});
    if (std::string message = services_.store.take_warning(); !message.empty()) {
        services_.outputs.warn(std::move(message));
        must_save_again_.store(true);  // files that other agents relied on may be lost
    }
    trim_hot_agents();
    if (must_save_again_.exchange(false))
        for (const storage::agent_id& dirty : services_.store.dirty_agents()) save(dirty, 0);
}

void agent_saves::report_save(const storage::agent_id& agent, request_id waiting, const lease& held,
                              const written_bytes& written) {
    // No other node goes on with the agent until the object store has this turn.
    std::function<void(bool)> uploaded;
    if (held != nullptr) uploaded = [held](bool) {};
    if (services_.shared != nullptr && services_.shared_wait.count() > 0 && waiting != 0)
        // Weak: an upload may outlive the scheduler, and then no client waits.
        uploaded = [to = std::weak_ptr(services_.gate), waiting, held, written](bool is_there) {
            const auto unsaved = is_there ? unsaved_reason::none : unsaved_reason::failed;
            if (const auto gate = to.lock()) gate->end_save(waiting, {unsaved, written});
        };
    else if (waiting != 0)
        services_.gate->end_save(waiting, {unsaved_reason::none, written});
    if (services_.shared != nullptr) services_.shared->note_saved(agent, std::move(uploaded));
}

// Evicts the least recently used hot agents until --max-hot-agents are left; they stay on disk.
void agent_saves::trim_hot_agents() {
    if (services_.max_hot_agents <= 0) return;
    std::vector<storage::agent_summary> hot = services_.store.list();
    std::erase_if(hot, [](const auto& agent) { return agent.tier != storage::memory_tier::hot; });
    // The agents that go first come first: those with the weakest policy, then the oldest.
    std::ranges::sort(hot, [](const auto& a, const auto& b) {
        return std::tie(a.claim, a.last_used) < std::tie(b.claim, b.last_used);
    });
    const auto kept = static_cast<std::size_t>(services_.max_hot_agents);
    for (std::size_t i = 0; i + kept < hot.size(); ++i) services_.store.evict(hot[i].id);
}

}  // namespace semantic::engine

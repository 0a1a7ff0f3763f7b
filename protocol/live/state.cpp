// SPDX-License-Identifier: Apache-2.0
#include "protocol/live/state.hpp"

#include <boost/json/object.hpp>

#include "engine/types/generation.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::live {

namespace {

namespace json = boost::json;

/// Returns: the beginning of a message, whose members and closing brace follow.
std::string opening(const char* type, std::uint64_t seq) {
    return std::string("{\"type\":\"") + type + "\",\"seq\":" + std::to_string(seq);
}

void add(std::string& message, const char* name, const std::string& value) {
    message.append(",\"").append(name).append("\":").append(value);
}

void add_item(std::string& list, const std::string& item) {
    if (!list.empty()) list += ',';
    list += item;
}

/// Returns: {"changed":[…],"gone":[…]}, the agents that differ between two states; empty where none
/// does.
std::string changes(const shown_agents& before, const shown_agents& now) {
    // Both states share one object where no agent changed.
    if (&before == &now) return {};
    std::string changed;
    std::string gone;
    for (const auto& [name, agent] : now) {
        const auto known = before.find(name);
        if (known == before.end() || known->second != agent) add_item(changed, agent);
    }
    for (const auto& [name, agent] : before)
        if (!now.contains(name)) add_item(gone, agent);
    if (changed.empty() && gone.empty()) return {};
    return "{\"changed\":[" + changed + "],\"gone\":[" + gone + "]}";
}

json::value load(const auto& counter) { return counter.load(std::memory_order_relaxed); }

std::uint64_t sum_of(const auto& counters) {
    std::uint64_t sum = 0;
    for (const auto& counter : counters) sum += counter.load(std::memory_order_relaxed);
    return sum;
}

json::object histogram(const engine::latency_histogram& source) {
    std::uint64_t count = 0;
    for (const auto& bucket : source.buckets) count += bucket.load(std::memory_order_relaxed);
    return {{"count", count},
            {"sum_ms", static_cast<double>(source.sum_us.load(std::memory_order_relaxed)) / 1000}};
}

json::object misses_of(const engine::engine_probe& work) {
    json::object misses;
    // From 1: reason 0 is none, no miss.
    for (std::size_t i = 1; i < work.misses.size(); ++i)
        misses[to_string(static_cast<engine::miss_reason>(i))] = load(work.misses[i]);
    return misses;
}

}  // namespace

std::string snapshot_message(const shown_state& now, const json::array& recent, std::uint64_t seq) {
    std::string agents;
    for (const auto& [name, agent] : *now.agents) add_item(agents, agent);
    std::string message = opening("snapshot", seq);
    add(message, "model", now.model);
    add(message, "gauges", now.gauges);
    add(message, "agents", "[" + agents + "]");
    add(message, "sessions", now.sessions);
    add(message, "runs", now.runs);
    add(message, "nodes", now.nodes);
    add(message, "recent", to_text(recent));
    return message + "}";
}

std::string delta_message(const shown_state& before, const shown_state& now, const happened& news,
                          std::uint64_t seq) {
    std::string message = opening("delta", seq);
    const std::size_t empty = message.size();
    const std::string agents = changes(*before.agents, *now.agents);
    if (!agents.empty()) add(message, "agents", agents);
    if (before.sessions != now.sessions) add(message, "sessions", now.sessions);
    if (before.runs != now.runs) add(message, "runs", now.runs);
    if (before.nodes != now.nodes) add(message, "nodes", now.nodes);
    if (before.model != now.model) add(message, "model", now.model);
    if (before.gauges != now.gauges) add(message, "gauges", now.gauges);
    if (!news.step.is_null()) add(message, "step", to_text(news.step));
    if (!news.events.empty()) add(message, "events", to_text(news.events));
    if (news.missed > 0) add(message, "missed", std::to_string(news.missed));
    return message.size() == empty ? std::string() : message + "}";
}

std::string gauges_text(const engine::engine_probe& work, const storage::store_probe& store,
                        const pool_gauges& pool) {
    json::object all{
        {"running", load(work.running)},
        {"waiting", load(work.waiting)},
        {"wait_estimate_ms", load(work.wait_estimate_ms)},
        {"requests_finished", load(work.requests_finished)},
        {"requests_failed", load(work.requests_failed)},
        {"requests_cancelled", load(work.requests_cancelled)},
        {"tokens_computed", load(work.tokens_prefilled)},
        {"tokens_decoded", load(work.tokens_decoded)},
        {"tokens_drafted", sum_of(work.tokens_drafted)},
        {"drafts_taken", sum_of(work.drafts_taken)},
        {"tokens_reused_ram", load(work.tokens_reused_ram)},
        {"tokens_reused_disk", load(work.tokens_reused_disk)},
        {"steps", load(work.steps)},
        {"first_token", histogram(work.time_to_first_token)},
        {"inter_token", histogram(work.inter_token)},
        {"misses", misses_of(work)},
        {"pool_bytes", pool.bytes},
        {"pool_held_bytes", pool.held_bytes},
        {"pool_state_bytes", pool.state_bytes},
        {"agents_hot", pool.agents_hot},
        {"agents_warm", pool.agents_warm},
        {"agents_dirty", pool.agents_dirty},
        {"disk_bytes", load(store.disk_bytes)},
        {"disk_budget_bytes", load(store.disk_budget_bytes)},
        {"evictions", load(store.evictions)},
        {"save_failures", load(store.save_failures)},
    };
    return to_text(json::value(std::move(all)));
}

}  // namespace semantic::protocol::live

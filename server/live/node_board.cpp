// SPDX-License-Identifier: Apache-2.0
#include "server/live/node_board.hpp"

#include <vector>

#include "protocol/live/nodes.hpp"
#include "server/handlers/live/viewer.hpp"
#include "server/runtime/version.hpp"
#include "storage/objects/redis/node_news.hpp"

namespace semantic::server {

namespace live = protocol::live;

namespace {

/// The part of a server's facts for which its agents are read.
live::node_facts agents_of(const services& server) {
    live::node_facts facts;
    for (const engine_lease& engine : server.engines.look_at_all()) {
        const live::pool_gauges pool = pool_of(*engine);
        facts.agents_hot += pool.agents_hot;
        facts.agents_warm += pool.agents_warm;
        facts.agents_dirty += pool.agents_dirty;
        facts.pool_bytes += pool.bytes;
        facts.pool_held_bytes += pool.held_bytes;
    }
    return facts;
}

}  // namespace

std::string own_node::text(const services& server) {
    constexpr int rest = 50;  // between two readings, as a multiple of what one took
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    if (begin - looked_ >= rest * took_) {
        facts_ = agents_of(server);
        looked_ = clock::now();
        took_ = looked_ - begin;
    }
    live::node_facts facts = facts_;
    facts.version = server_version;
    facts.phase = to_string(server.engines.state().phase);
    const auto at_least_zero = [](const auto& gauge) {
        const auto value = gauge.load(std::memory_order_relaxed);
        return value > 0 ? static_cast<std::uint64_t>(value) : 0;
    };
    for (const engine_lease& engine : server.engines.look_at_all()) {
        facts.models.push_back(engine->info().id);
        facts.running += at_least_zero(engine->probe().running);
        facts.waiting += at_least_zero(engine->probe().waiting);
        if (const auto shared = engine->shared_counts()) facts.uploads_pending += shared->pending;
    }
    return live::node_text(facts);
}

std::string nodes_text(const services& server) {
    std::vector<live::shown_node> shown;
    if (server.news != nullptr)
        for (storage::known_node& each : server.news->nodes())
            shown.push_back({std::move(each.id), std::move(each.url), each.is_self, each.silent_for,
                             std::move(each.says)});
    return live::nodes_text(shown);
}

}  // namespace semantic::server

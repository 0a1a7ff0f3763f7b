// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/models/memory_report.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <string>

#include "protocol/wire/json.hpp"
#include "server/handlers/models/models.hpp"
#include "server/models/memory_plan.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;

/// What each loaded model takes.
json::array each_model(const services& server) {
    json::array all;
    for (const engine_lease& engine : server.engines.look_at_all()) {
        const engine::pool_usage pool = engine->pool();
        all.push_back({{"model", server.models.list().at(engine.model()).name},
                       {"weights_bytes", engine->info().weight_bytes},
                       {"pool_held_bytes", pool.frames_held * pool.frame_bytes}});
    }
    return all;
}

/// The report's body. Reads the files of models, so it blocks.
std::string report(const services& server) {
    const engine_lease engine = server.engines.look();
    const std::uint64_t own = static_cast<std::uint64_t>(server.settings.memory_limit_mb) << 20;
    const memory_limit limit = find_memory_limit(own);
    json::object body{{"limit_bytes", limit.bytes},
                      {"limit", limit.name},
                      {"process_bytes", own_memory()},
                      {"model", nullptr}};
    if (!engine) return protocol::to_text(body);
    const registered_model& model = server.models.list().at(engine.model());
    const engine::pool_usage pool = engine->pool();
    body["model"] = model.name;
    body["weights_bytes"] = engine->info().weight_bytes;
    body["pool_bytes"] = engine->info().pool_bytes;
    body["pool_held_bytes"] = pool.frames_held * pool.frame_bytes;
    if (server.engines.size() > 1) body["models"] = each_model(server);
    if (model.path.empty()) return protocol::to_text(body);
    auto needs = needs_of(model.path, server.models.settings_of(engine.model()));
    const auto others = server.engines.models_beside(server.engines.usual_index());
    for (const planned_model& each : server.models.planned(others)) {
        const auto more = needs_of(each.path, each.settings);
        if (needs && more) needs = together(*needs, *more);
    }
    if (!needs) return protocol::to_text(body);
    const memory_plan plan{limit, *needs, engine->info().pool_bytes};
    body["scratch_bytes"] = needs->scratch;
    body["connections_bytes"] = needs->connections;
    body["clients_bytes"] = needs->clients;
    body["rest_bytes"] = needs->process;
    body["plan"] = to_text(plan);
    return protocol::to_text(body);
}

}  // namespace

net::awaitable<std::optional<response>> get_memory(const services& server, const request&,
                                                   client_link&) {
    auto look = [&] { return report(server); };
    co_return json_response(co_await run_on(server.workers, look));
}

}  // namespace semantic::server

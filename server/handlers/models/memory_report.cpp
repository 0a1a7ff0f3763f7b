#include "server/handlers/models/memory_report.hpp"

#include <boost/json/object.hpp>

#include <string>

#include "protocol/wire/json.hpp"
#include "server/handlers/models/models.hpp"
#include "server/models/memory_plan.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;

/// Blocks.
std::string report(const services& with) {
    const engine_lease engine = with.engines.look();
    const std::uint64_t own = static_cast<std::uint64_t>(with.settings.memory_limit_mb) << 20;
    const memory_limit limit = find_memory_limit(own);
    json::object body{{"limit_bytes", limit.bytes},
                      {"limit", limit.name},
                      {"process_bytes", own_memory()},
                      {"model", nullptr}};
    if (!engine) return protocol::to_text(body);
    const registered_model& model = with.models.list().at(engine.model());
    const engine::pool_usage pool = engine->pool();
    body["model"] = model.name;
    body["weights_bytes"] = engine->info().weight_bytes;
    body["pool_bytes"] = engine->info().pool_bytes;
    body["pool_held_bytes"] = pool.frames_held * pool.frame_bytes;
    if (model.path.empty()) return protocol::to_text(body);
    const auto needs = needs_of(model.path, with.models.settings_of(engine.model()));
    if (!needs) return protocol::to_text(body);
    const memory_plan plan{limit, *needs, engine->info().pool_bytes};
    body["scratch_bytes"] = needs->scratch;
    body["connections_bytes"] = needs->connections;
    body["rest_bytes"] = needs->process;
    body["plan"] = to_text(plan);
    return protocol::to_text(body);
}

}  // namespace

net::awaitable<std::optional<response>> get_memory(const services& with, const request&,
                                                   client_link&) {
    auto look = [&] { return report(with); };
    co_return json_response(co_await run_on(with.workers, look));
}

}  // namespace semantic::server

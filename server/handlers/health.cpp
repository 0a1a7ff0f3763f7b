// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/health.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <chrono>
#include <mutex>

#include "protocol/wire/json.hpp"
#include "protocol/wire/public_text.hpp"
#include "server/dashboard/dashboard.hpp"
#include "server/handlers/routes.hpp"
#include "server/runtime/version.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;

response status_reply(int status, json::object body) {
    response told = json_response(protocol::to_text(json::value(std::move(body))));
    told.status = status;
    if (status == 503) told.fields.emplace_back("retry-after", "1");
    return told;
}

void add_model(json::object& body, const char* key, const services& server,
               std::optional<std::size_t> model) {
    if (model) body[key] = server.models.list().at(*model).name;
}

/// The body for a slot that is not ready: why, and how far its load is.
json::object unready(const services& server, const slot_state& now) {
    const bool is_start = now.is_start || now.phase == slot_phase::idle;
    json::object body{{"status", is_start ? "starting" : "changing"},
                      {"reason", is_start ? "model_loading" : "model_change"}};
    if (now.phase == slot_phase::failed)
        return {{"status", "failed"},
                {"reason", "no_model"},
                {"why", protocol::without_directories(now.why)}};
    if (!is_start) {
        body["phase"] = to_string(now.phase);
        add_model(body, "model", server, now.model);
        add_model(body, "target", server, now.target);
        if (!now.why.empty()) body["why"] = protocol::without_directories(now.why);
    }
    if (!is_start && now.phase != slot_phase::loading) return body;
    engine::load_progress progress = server.engines.progress();
    body["stage"] = progress.stage;
    body["fraction"] = progress.fraction;
    if (!progress.files.empty()) {
        json::array files;
        for (const engine::file_progress& file : progress.files)
            files.push_back({{"name", file.name}, {"fraction", file.fraction}});
        body["files"] = std::move(files);
    }
    return body;
}

/// The usage of the pool, cached. Counting takes time for each agent, and any client may ask
/// without a key as often as it likes; so it is counted again only after 50 times as long as that
/// took.
class recent_pool {
  public:
    /// The usage of this engine's pool, counted now or lately.
    engine::pool_usage look(const engine::engine& engine) {
        constexpr int rest = 50;  // between two counts, as a multiple of what one took
        using clock = std::chrono::steady_clock;
        std::lock_guard lock(mutex_);
        const clock::time_point begin = clock::now();
        if (engine_ == &engine && begin - looked_ < rest * took_) return usage_;
        usage_ = engine.pool();
        engine_ = &engine;
        looked_ = clock::now();
        took_ = looked_ - begin;
        return usage_;
    }

  private:
    std::mutex mutex_;  // guards what follows
    const engine::engine* engine_ = nullptr;
    engine::pool_usage usage_;
    std::chrono::steady_clock::time_point looked_{};
    std::chrono::steady_clock::duration took_{};
};

recent_pool pool_seen_recently;

struct readiness {
    bool ready = false;
    json::object body;  // "status" says in one word why, or that it is
};

/// Whether a request sent now would be served, and what the health checks say about that.
readiness readiness_of(const services& server) {
    if (server.stopping.load())
        return {false, {{"status", "stopping"}, {"reason", "shutting_down"}}};
    const slot_state now = server.engines.state();
    const engine_lease engine = server.engines.look();
    if (now.phase == slot_phase::empty) {
        // A request loads the model that it names, where requests may wait for one.
        const bool loads_on_demand = server.queue != nullptr;
        json::object body{{"status", "ready"}, {"model", nullptr}};
        if (!loads_on_demand) body = {{"status", "unloaded"}, {"reason", "no_model"}};
        return {loads_on_demand, std::move(body)};
    }
    if (now.phase != slot_phase::ready || !engine) return {false, unready(server, now)};
    const engine::pool_usage pool = pool_seen_recently.look(*engine);
    std::int64_t running = engine->probe().running.load();
    if (is_pool_exhausted(pool, running))
        return {false,
                {{"status", "busy"},
                 {"reason", "pool_exhausted"},
                 {"frames_total", pool.frames_total},
                 {"frames_held", pool.frames_held}}};
    json::object body{{"status", "ready"},
                      {"model", engine->info().id},
                      {"requests_running", running},
                      {"requests_waiting", engine->probe().waiting.load()}};
    if (!now.why.empty()) body["last_change_failed"] = protocol::without_directories(now.why);
    if (server.engines.size() > 1) {
        json::array loaded;
        for (const engine_lease& each : server.engines.look_at_all())
            loaded.push_back(json::string(each->info().id));
        body["models"] = std::move(loaded);
    }
    return {true, std::move(body)};
}

}  // namespace

bool is_pool_exhausted(const engine::pool_usage& pool, std::int64_t sequences_running) {
    // Less than a twentieth free: the next request of any size has to evict.
    const std::uint64_t held = pool.frames_held + pool.frames_held_by_others;
    bool is_full = held * 20 > pool.frames_total * 19;
    std::uint64_t clean =
        pool.agents_hot > pool.agents_dirty ? pool.agents_hot - pool.agents_dirty : 0;
    // Running agents are hot, too, and cannot be evicted: room comes only from clean agents beyond
    // their number.
    return is_full &&
           clean <= static_cast<std::uint64_t>(std::max<std::int64_t>(sequences_running, 0));
}

response get_health_live(const services&, const request&) {
    return status_reply(200, {{"status", "alive"}});
}

response get_health_startup(const services& server, const request&) {
    const slot_state now = server.engines.state();
    if (now.is_start || now.phase == slot_phase::idle)
        return status_reply(503, unready(server, now));
    return status_reply(200, {{"status", "started"}});
}

response get_health_ready(const services& server, const request&) {
    readiness now = readiness_of(server);
    return status_reply(now.ready ? 200 : 503, std::move(now.body));
}

// Always 200 "ok", because scripts of the earlier system wait for exactly that. Other fields may be
// added.
response get_health(const services& server, const request&) {
    readiness now = readiness_of(server);
    json::object body{{"status", "ok"}};
    for (auto& [name, value] : now.body)
        body.emplace(name == "status" ? "readiness" : json::string_view(name), std::move(value));
    if (const engine_lease engine = server.engines.look()) {
        const storage::store_probe& store = engine->store_probe();
        body["disk"] = {{"bytes", store.disk_bytes.load()},
                        {"budget_bytes", store.disk_budget_bytes.load()},
                        {"saves_out_of_space", store.saves_out_of_space.load()}};
    }
    return status_reply(200, std::move(body));
}

response get_root(const services& server, const request& incoming) {
    if (is_browser(incoming)) return to_dashboard();
    json::array endpoints;
    for (const route& row : server.routes)
        endpoints.push_back(json::string(std::string(row.method) + " " + std::string(row.pattern)));
    json::object body{{"name", "semantic-server"}, {"version", server_version}};
    if (const engine_lease engine = server.engines.look()) body["model"] = engine->info().id;
    body["endpoints"] = std::move(endpoints);
    return json_response(protocol::to_text(json::value(std::move(body))));
}

}  // namespace semantic::server

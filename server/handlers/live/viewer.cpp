// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/live/viewer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <set>
#include <vector>

#include "protocol/agents/agents.hpp"
#include "protocol/wire/json.hpp"
#include "server/handlers/agents.hpp"
#include "server/handlers/coordination.hpp"
#include "server/handlers/scenario_runs.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;
namespace live = protocol::live;

/// A JSON list of items that are JSON already.
std::string list_of(const std::vector<std::string>& items) {
    std::string list = "[";
    for (const std::string& item : items) list.append(list.size() == 1 ? "" : ",").append(item);
    return list + "]";
}

/// An agent as the agents API shows it; for an admin the tenant comes first.
std::string agent_text(const engine::agent_info& info, const live::viewpoint& from,
                       const std::string& model) {
    std::string body = protocol::agents::agent_body(card_of(info), model);
    if (from.tenant) return body;
    const json::value tenant(live::tenant_name(info.id.tenant()));
    return "{\"tenant\":" + protocol::to_text(tenant) + "," + body.substr(1);
}

void append(std::vector<std::string>& to, std::vector<std::string> more) {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::optional<live::viewpoint> viewpoint_of(const viewer& viewer, const engine_lease& engine) {
    if (viewer.is_admin) return live::viewpoint{};
    if (viewer.credential.empty()) return live::viewpoint{storage::tenant_id()};
    if (!engine) return std::nullopt;
    return live::viewpoint{engine->tenant(viewer.credential)};
}

void look_at_agents(const services& server, const live::viewpoint& from,
                    const engine::engine& engine, live::shown_state& now) {
    const std::string& model = engine.info().id;
    std::set<storage::tenant_id> tenants;
    if (from.tenant) tenants.insert(*from.tenant);
    live::shown_agents agents;
    for (const engine::agent_info& info :
         from.tenant ? engine.agents(*from.tenant) : engine.agents_of_all()) {
        tenants.insert(info.id.tenant());
        // The agents of two tenants may have the same id.
        agents[info.id.tenant().salt.hex() + info.id.str()] = agent_text(info, from, model);
    }
    now.agents = std::make_shared<const live::shown_agents>(std::move(agents));
    std::vector<std::string> sessions;
    std::vector<std::string> runs;
    for (const storage::tenant_id& tenant : tenants) {
        append(sessions, session_statuses(server, tenant));
        append(runs, run_states(server, tenant));
    }
    now.sessions = list_of(sessions);
    now.runs = list_of(runs);
}

std::string model_text(const services& server) {
    const slot_state now = server.engines.state();
    const registry& models = server.models.list();
    const auto name = [&](std::optional<std::size_t> model) {
        return model ? json::value(models.at(*model).name) : json::value(nullptr);
    };
    json::array known;
    for (std::size_t i = 0; i < models.size(); ++i)
        known.push_back({{"id", models.at(i).name}, {"failure", server.models.failure(i)}});
    const bool is_loading = now.phase == slot_phase::loading;
    return protocol::to_text(json::object{
        {"phase", to_string(now.phase)},
        {"running", name(now.model)},
        {"target", name(now.target)},
        {"why", now.why},
        {"fraction", is_loading ? server.engines.progress().fraction : 1.0},
        {"known", std::move(known)},
    });
}

live::pool_gauges pool_of(const engine::engine& engine) {
    const engine::pool_usage pool = engine.pool();
    return {pool.frames_total * pool.frame_bytes,
            pool.frames_held * pool.frame_bytes,
            pool.agents_hot,
            pool.agents_warm,
            pool.agents_dirty,
            pool.states_held * pool.state_bytes};
}

}  // namespace semantic::server

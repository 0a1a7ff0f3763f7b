// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/api.hpp"

#include <boost/json.hpp>

#include "protocol/coordination/memory.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::scenarios {

namespace json = boost::json;

namespace {

json::array phases_of(const scenario& scenario) {
    json::array out;
    for (const phase& each : scenario.phases) {
        json::array agents(each.agents.begin(), each.agents.end());
        out.push_back(json::object{{"name", each.name},
                                   {"label", each.label},
                                   {"agents", std::move(agents)},
                                   {"rounds", each.rounds}});
    }
    return out;
}

std::string event_of(std::string_view name, const json::object& fields) {
    return sse_event(name, to_text(fields));
}

/// Adds the result of a run: choices, summary, payoff.
void add_result(json::object& to, const run_result& came) {
    json::object choices;
    for (const auto& [name, choice] : came.choices) choices[name] = choice;
    to["outcome"] = json::object{{"choices", std::move(choices)}, {"summary", came.text}};
    to["payoff"] = came.worth ? json::value(*came.worth) : json::value();
}

/// The state of a run as clients see it.
json::object run_object(const run_state& run) {
    json::array phases;
    for (const run_state::phase_state& each : run.phases) {
        const char* status = each.is_over ? "complete" : each.is_begun ? "begun" : "waiting";
        phases.push_back(json::object{{"phase", each.name},
                                      {"session_id", each.session_id},
                                      {"status", status},
                                      {"turns", each.turns}});
    }
    const char* status = run.is_driven ? "running" : run.is_over ? "complete" : "stopped";
    json::object out{{"run_id", run.id},
                     {"scenario", run.scenario_id},
                     {"status", status},
                     {"phases", std::move(phases)}};
    if (run.came) add_result(out, *run.came);
    return out;
}

/// Reads how a run is wanted.
run_request read_run(const json_cursor& root) {
    run_request out;
    if (auto field = root.find("yaml")) out.yaml = std::string(field->as_string());
    out.prefix =
        coordination::text_at(root, "persistent_cache_prefix", coordination::prefix_bytes_max,
                              coordination::presence::optional);
    if (!out.prefix.empty() && !coordination::is_name(out.prefix))
        root.place("persistent_cache_prefix").fail(errc::bad_value, "must be of [A-Za-z0-9._:-]");
    out.is_persistent = flag_at(root, "persistent", true);
    out.rereads = flag_at(root, "reread");
    return out;
}

}  // namespace

result<run_request> parse_run(std::string_view body, const json_limits& limits) {
    if (is_white_space(body)) return run_request{};
    return read_object(body, limits, read_run);
}

std::string scenarios_body(std::span<const scenario> all) {
    json::array out;
    for (const scenario& each : all)
        out.push_back(json::object{{"id", each.id},
                                   {"title", each.title},
                                   {"description", each.description},
                                   {"phases", phases_of(each)}});
    return to_text(json::object{{"scenarios", std::move(out)}});
}

std::string run_start_event(std::string_view run_id, const scenario& scenario) {
    return event_of(
        "run_start",
        {{"run_id", run_id}, {"scenario", scenario.id}, {"phases", phases_of(scenario)}});
}

std::string phase_start_event(const phase& phase, const coordination::session& made) {
    json::array agents;
    for (const coordination::agent& each : made.agents)
        agents.push_back(json::object{{"agent_id", each.id}, {"display_name", each.name}});
    return event_of("phase_start", {{"phase", phase.name},
                                    {"label", phase.label},
                                    {"session_id", made.id},
                                    {"agents", std::move(agents)}});
}

std::string phase_complete_event(const phase& phase, const coordination::session& over) {
    return event_of("phase_complete",
                    {{"phase", phase.name}, {"session_id", over.id}, {"turns", over.turn}});
}

std::string run_complete_event(std::string_view run_id, const run_result& came) {
    json::object fields{{"run_id", run_id}};
    add_result(fields, came);
    return event_of("run_complete", fields);
}

std::string run_stopped_event(std::string_view run_id) {
    return event_of("run_stopped", {{"run_id", run_id}});
}

std::string run_body(const run_state& run) { return to_text(run_object(run)); }

}  // namespace semantic::protocol::scenarios

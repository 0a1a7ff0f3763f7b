// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/scenario_runs.hpp"

#include <utility>

#include "protocol/coordination/api.hpp"
#include "protocol/scenarios/api.hpp"
#include "server/coordination/become_idle.hpp"
#include "server/coordination/run_registry.hpp"
#include "server/coordination/scenario_run.hpp"
#include "server/coordination/session_keeper.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/answer/piecewise_reply.hpp"
#include "server/handlers/coordination.hpp"
#include "server/http/sse_writer.hpp"

namespace semantic::server {

namespace {

namespace coordination = protocol::coordination;
namespace scenarios = protocol::scenarios;
using protocol::errc;
using reply = std::optional<response>;

/// What a request for a run wants; one body has both parts.
struct wanted_run {
    scenarios::run_request run;
    coordination::answer_wish how;
};

/// Parses both parts of the body.
protocol::result<wanted_run> parse_wanted(std::string_view body, const services& server) {
    protocol::request_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    auto answers = coordination::parse_turn(body, true, limits);
    if (!answers) return answers.error();
    auto run = scenarios::parse_run(body, limits.json);
    if (!run) return run.error();
    return wanted_run{std::move(*run), std::move(answers->answer)};
}

/// The scenario that a request wants to run: the one in its body, or the shipped one that its path
/// names. Errors: not_found, those of parse_scenario().
net::awaitable<protocol::result<scenarios::scenario>> wanted_scenario(
    const services& server, const request& incoming, const scenarios::run_request& wanted) {
    auto find = [&]() -> protocol::result<scenarios::scenario> {
        if (wanted.yaml) {
            auto made = scenarios::parse_scenario(*wanted.yaml);
            if (made && made->id != incoming.parameter)
                return fail(errc::bad_value, "yaml: its id is " + made->id);
            return made;
        }
        for (scenarios::scenario& each : shipped_scenarios())
            if (each.id == incoming.parameter) return std::move(each);
        return fail(errc::not_found, "Scenario " + incoming.parameter + " not found");
    };
    co_return co_await run_on(choose_workers(server, incoming, job_length::long_job), find);
}

/// Takes the turns that are left of a run and streams them. Requires: `driven` is the right to
/// drive this run.
net::awaitable<reply> drive(const answer_context& context, const run_registry::driven& driven,
                            run_registry::known_run known, const wanted_run& wanted) {
    running_answer counted(context.server.probe);
    sse_writer writer(context.client, context.incoming);
    event_sender send = [&](std::string events) -> net::awaitable<bool> {
        if (driven.is_stopped()) co_return false;
        co_return co_await writer.write(events);
    };
    const session_client asker = client_of(context);
    scenario_run run(asker, known, wanted.run, wanted.how, send);
    auto last = co_await run.run();
    if (context.client.is_gone()) co_return std::nullopt;
    std::string bytes;
    if (last)
        bytes = std::move(*last);
    else if (driven.is_stopped())
        bytes = scenarios::run_stopped_event(known->id);
    else
        bytes = error_event(protocol::dialect::native, last.error(), context.incoming.id);
    co_await writer.write(bytes);
    co_await writer.finish();
    co_return std::nullopt;
}

}  // namespace

net::awaitable<reply> get_scenarios(const services& server, const request&, client_link&) {
    auto all = co_await run_on(server.workers, shipped_scenarios);
    co_return json_response(scenarios::scenarios_body(all));
}

net::awaitable<reply> post_scenario_run(const services& server, const request& incoming,
                                        client_link& client) {
    if (incoming.body.size() > run_request_bytes_max)
        co_return error_response(
            incoming, fail(errc::body_too_large,
                           "a request for a run may have " + std::to_string(run_request_bytes_max) +
                               " bytes, has " + std::to_string(incoming.body.size())));
    std::string body = incoming.body;
    auto parse = [&] { return parse_wanted(body, server); };
    auto wanted = co_await parse_body(server, incoming, parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    auto scenario = co_await wanted_scenario(server, incoming, wanted->run);
    if (!scenario) co_return error_response(incoming, scenario.error());
    const storage::tenant_id tenant = tenant_of(incoming);
    scenarios::kept_run made{new_hex_id("run_"), std::move(*scenario), std::move(body)};
    auto added = server.runs.add(tenant, std::move(made));
    if (!added) co_return error_response(incoming, added.error());
    const run_registry::known_run known = *added;
    // The run is taken before it is written, so that nobody deletes it in between.
    auto driven = server.runs.begin(tenant, known->id);
    if (!driven) co_return error_response(incoming, driven.error());
    auto keep = [&] { return keep_run(*incoming.engine, tenant, *known); };
    if (auto kept = co_await run_on(choose_workers(server, incoming, job_length::long_job), keep);
        !kept) {
        server.runs.remove(std::move(*driven));
        co_return error_response(incoming, kept.error());
    }
    const answer_context context{server, incoming, client};
    co_return co_await drive(context, *driven, known, *wanted);
}

std::vector<std::string> run_states(const services& server, const storage::tenant_id& tenant) {
    std::vector<std::string> states;
    for (const auto& each : server.runs.all(tenant))
        states.push_back(scenarios::run_body(known_state_of(server, tenant, *each)));
    return states;
}

net::awaitable<reply> get_runs(const services& server, const request& incoming,
                               client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    const auto runs = server.runs.all(tenant);
    std::size_t shown = 0;
    auto next = [&]() -> protocol::result<std::string> {
        std::string piece = shown == 0 ? "{\"runs\":[" : "";
        // The end was sent already: an empty piece ends the reply.
        if (shown > runs.size()) return std::string();
        for (; shown < runs.size() && piece.size() < reply_piece_bytes; ++shown)
            piece += (shown > 0 ? "," : "") +
                     scenarios::run_body(state_of(server, tenant, *runs[shown]));
        if (shown == runs.size()) {
            ++shown;
            piece += "]}";
        }
        return piece;
    };
    const answer_context context{server, incoming, client};
    co_return co_await send_in_pieces(context, next);
}

net::awaitable<reply> get_run(const services& server, const request& incoming, client_link&) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto found = server.runs.find(tenant, incoming.parameter);
    if (!found) co_return error_response(incoming, found.error());
    auto make = [&] { return scenarios::run_body(state_of(server, tenant, **found)); };
    co_return json_response(
        co_await run_on(choose_workers(server, incoming, job_length::long_job), make));
}

net::awaitable<reply> post_run_resume(const services& server, const request& incoming,
                                      client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto found = server.runs.find(tenant, incoming.parameter);
    if (!found) co_return error_response(incoming, found.error());
    const run_registry::known_run known = *found;
    auto parse = [&] { return parse_wanted(known->request, server); };
    auto wanted = co_await run_on(choose_workers(server, incoming, job_length::long_job), parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    auto driven = server.runs.begin(tenant, known->id);
    if (!driven) co_return error_response(incoming, driven.error());
    const answer_context context{server, incoming, client};
    co_return co_await drive(context, *driven, known, *wanted);
}

net::awaitable<reply> post_run_cancel(const services& server, const request& incoming,
                                      client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto stopped = server.runs.stop(tenant, incoming.parameter);
    if (!stopped) co_return error_response(incoming, stopped.error());
    auto is_idle = [&] { return !server.runs.is_driven(tenant, incoming.parameter); };
    if (!co_await become_idle(client, is_idle))
        co_return error_response(incoming, fail(errc::conflict, "the run has not stopped yet"));
    co_return co_await get_run(server, incoming, client);
}

net::awaitable<reply> delete_run(const services& server, const request& incoming, client_link&) {
    const storage::tenant_id tenant = tenant_of(incoming);
    // Holding this right keeps others from driving the run. It stays in the registry until its
    // record is erased, so that a failed deletion can be repeated.
    auto driven = server.runs.begin(tenant, incoming.parameter);
    if (!driven) co_return error_response(incoming, driven.error());
    auto drop = [&] { return drop_run(*incoming.engine, tenant, incoming.parameter); };
    auto dropped = co_await run_on(choose_workers(server, incoming, job_length::long_job), drop);
    if (!dropped) co_return error_response(incoming, dropped.error());
    server.runs.remove(std::move(*driven));
    response empty;
    empty.status = 204;
    co_return empty;
}

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// /v1/coordination/scenarios and /v1/coordination/runs: a tenant's runs of scenarios. Another
// tenant's run is none.
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent; the run
// can be resumed.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

using awaited_reply = boost::asio::awaitable<std::optional<response>>;
/// GET /v1/coordination/scenarios: the scenarios that come with the server.
awaited_reply get_scenarios(const services& server, const request& incoming, client_link& client);
/// POST .../scenarios/{id}/runs: begins a run, takes all its turns, and streams the events.
awaited_reply post_scenario_run(const services& server, const request& incoming,
                                client_link& client);

/// The state of each of the tenant's runs, as JSON like the reply of GET
/// /v1/coordination/runs/{id}; with the result where it is known.
std::vector<std::string> run_states(const services& server, const storage::tenant_id& tenant);

/// GET /v1/coordination/runs: the state of all runs.
awaited_reply get_runs(const services& server, const request& incoming, client_link& client);
/// GET /v1/coordination/runs/{id}: the state of one run.
awaited_reply get_run(const services& server, const request& incoming, client_link& client);
/// POST .../runs/{id}/resume: takes the turns that are left of a stopped run, and streams the
/// events.
awaited_reply post_run_resume(const services& server, const request& incoming, client_link& client);
/// POST .../runs/{id}/cancel: stops a run. Replies once it has stopped; 409 when that takes too
/// long.
awaited_reply post_run_cancel(const services& server, const request& incoming, client_link& client);
/// DELETE .../runs/{id}: deletes a run. The sessions of its phases stay.
awaited_reply delete_run(const services& server, const request& incoming, client_link& client);

}  // namespace semantic::server

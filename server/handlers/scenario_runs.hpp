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
awaited_reply get_scenarios(const services& server, const request& incoming, client_link& client);
/// Drives all phases and streams what happens.
awaited_reply post_scenario_run(const services& server, const request& incoming,
                                client_link& client);

/// How far each of the tenant's runs is, as GET /v1/coordination/runs/{id} replies; what came of
/// one if that is known.
std::vector<std::string> run_states(const services& server, const storage::tenant_id& tenant);

awaited_reply get_runs(const services& server, const request& incoming, client_link& client);
awaited_reply get_run(const services& server, const request& incoming, client_link& client);
/// Drives what is left of a run that has stopped, and streams it.
awaited_reply post_run_resume(const services& server, const request& incoming, client_link& client);
/// Replies when nobody drives the run any more.
awaited_reply post_run_cancel(const services& server, const request& incoming, client_link& client);
/// The sessions of its phases stay.
awaited_reply delete_run(const services& server, const request& incoming, client_link& client);

}  // namespace semantic::server

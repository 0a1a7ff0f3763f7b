// SPDX-License-Identifier: Apache-2.0
#pragma once
// Health checks for orchestrators and people: is the server up, is it ready, what is it.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /health: always 200 with "status":"ok", and the fields of get_health_ready().
response get_health(const services& server, const request& incoming);
/// GET /health/live: 200 as long as the threads that serve connections work.
response get_health_live(const services& server, const request& incoming);
/// GET /health/ready: 200 when a request sent now would be served; 503 while the server loads,
/// stops, or cannot make room in the pool.
response get_health_ready(const services& server, const request& incoming);
/// GET /health/startup: 503 with stage and fraction while the first model loads, 200 from then on.
response get_health_startup(const services& server, const request& incoming);
/// GET /: name, version and endpoints; a browser is redirected to the dashboard.
response get_root(const services& server, const request& incoming);

/// Whether over 95 % of the pool's frames are held and no agent beyond the running ones can be
/// evicted.
bool is_pool_exhausted(const engine::pool_usage& pool, std::int64_t sequences_running);

}  // namespace semantic::server

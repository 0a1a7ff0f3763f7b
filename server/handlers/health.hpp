// SPDX-License-Identifier: Apache-2.0
#pragma once
// Health checks for orchestrators and people: is the server up, is it ready, what is it.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// Always 200 with "status":"ok", and the fields of get_health_ready().
response get_health(const services& server, const request& incoming);
/// 200 for as long as the I/O threads turn.
response get_health_live(const services& server, const request& incoming);
/// 200 when a request sent now would be served; 503 while loading, while stopping, and while the
/// pool has no room left to make.
response get_health_ready(const services& server, const request& incoming);
/// 503 with stage and fraction while the model loads, 200 from then on.
response get_health_startup(const services& server, const request& incoming);
/// Name, version and endpoints.
response get_root(const services& server, const request& incoming);

/// Whether nearly every frame of the pool is held by what cannot be evicted.
bool is_pool_exhausted(const engine::pool_usage& pool, std::int64_t sequences_running);

}  // namespace semantic::server

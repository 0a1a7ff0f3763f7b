// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /metrics: the server's counters. /v1/usage: the usage of the key that asks, and
// /admin/usage, of all.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /metrics: all counters as Prometheus text; those of the engine once it is loaded.
response get_metrics(const services& server, const request& incoming);

/// GET /v1/usage: the usage of the client's key.
response get_usage(const services& server, const request& incoming);
/// GET /admin/usage: the usage of every key.
response get_all_usage(const services& server, const request& incoming);

}  // namespace semantic::server

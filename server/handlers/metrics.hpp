#pragma once
// GET /metrics.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// All counters as Prometheus text; those of the engine once it is loaded.
response get_metrics(const services& with, const request& incoming);

}  // namespace semantic::server

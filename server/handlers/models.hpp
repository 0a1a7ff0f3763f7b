#pragma once
// GET /v1/models and /v1/models/{id}: the one model that is loaded.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

response get_models(const services& with, const request& incoming);
response get_model(const services& with, const request& incoming);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /props and GET /slots, as llama.cpp's server has them: what clients look for to learn the
// context length of the model that runs.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// GET /props: what clients of llama.cpp's server ask about the model. Refused while none is
/// loaded.
boost::asio::awaitable<std::optional<response>> get_props(const services& server,
                                                          const request& incoming,
                                                          client_link& client);
/// GET /slots: how many requests run. Refused while no model is loaded.
boost::asio::awaitable<std::optional<response>> get_slots(const services& server,
                                                          const request& incoming,
                                                          client_link& client);

}  // namespace semantic::server

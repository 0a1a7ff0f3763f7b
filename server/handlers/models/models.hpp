// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /v1/models and /v1/models/{id}: every model of the registry, whether it is loaded or not.

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/models.hpp"
#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

boost::asio::awaitable<std::optional<response>> get_models(const services& server,
                                                           const request& incoming,
                                                           client_link& client);
/// By name or alias.
boost::asio::awaitable<std::optional<response>> get_model(const services& server,
                                                          const request& incoming,
                                                          client_link& client);

/// What clients see of a model, and all that is known of it.
struct described_model {
    protocol::model_card card;
    engine::model_info info;
};
/// Blocks: of models that were never loaded the files are read. What runs comes first, so that
/// clients that take the first model take one that answers.
std::vector<described_model> describe_models(const services& server);

/// A refusal while the server's first model loads, and when it stops.
std::optional<response> refuse_before_start(const services& server, const request& incoming);
/// Returns: its name; empty for none.
std::string model_name(const services& server, std::optional<std::size_t> model);
/// Blocks. Why the model certainly cannot be loaded in that slot while the other slots keep
/// theirs; empty: it may.
std::string fault_in_slot(const services& server, std::size_t model, std::size_t slot);
/// Names of the models that are not known to be missing.
std::vector<std::string> loadable_models(const services& server);

}  // namespace semantic::server

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

/// GET /v1/models: all models, page by page.
boost::asio::awaitable<std::optional<response>> get_models(const services& server,
                                                           const request& incoming,
                                                           client_link& client);
/// GET /v1/models/{id}: one model, by name or alias.
boost::asio::awaitable<std::optional<response>> get_model(const services& server,
                                                          const request& incoming,
                                                          client_link& client);

/// A model as clients see it (`card`), and all that is known of it.
struct described_model {
    protocol::model_card card;
    engine::model_info info;
};
/// Describes all models of the registry; loaded ones come first, so that a client that takes the
/// first gets one that answers. Blocks: reads the files of models that were never loaded.
std::vector<described_model> describe_models(const services& server);

/// Returns: a refusal while the server's first model loads, and when the server stops; else
/// nothing.
std::optional<response> refuse_before_start(const services& server, const request& incoming);
/// Returns: the model's name; empty for no model.
std::string model_name(const services& server, std::optional<std::size_t> model);
/// Why the model certainly cannot be loaded in that slot while the other slots keep theirs; empty:
/// it may. Blocks.
std::string fault_in_slot(const services& server, std::size_t model, std::size_t slot);
/// Names of the models that are not known to be missing.
std::vector<std::string> loadable_models(const services& server);

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/models/llama_cpp.hpp"

#include <algorithm>

#include "protocol/llama_cpp.hpp"
#include "server/handlers/models/models.hpp"
#include "server/runtime/version.hpp"
#include "server/runtime/workers.hpp"
#include "server/workers/request_workers.hpp"

namespace semantic::server {

namespace {

using reply = std::optional<response>;

net::awaitable<protocol::model_card> loaded_card(const services& server, const request& incoming) {
    auto read = [&] { return describe_models(server).front().card; };  // what runs comes first
    co_return co_await run_on(choose_workers(server, incoming), read);
}

}  // namespace

net::awaitable<reply> get_props(const services& server, const request& incoming, client_link&) {
    const protocol::model_card loaded = co_await loaded_card(server, incoming);
    co_return json_response(
        protocol::props_body(loaded, server.settings.max_batch, server_version));
}

net::awaitable<reply> get_slots(const services& server, const request& incoming, client_link&) {
    const protocol::model_card loaded = co_await loaded_card(server, incoming);
    const auto running = incoming.engine->probe().running.load();
    const int slots = server.settings.max_batch;
    co_return json_response(protocol::slots_body(
        loaded, slots, static_cast<int>(std::min<std::int64_t>(running, slots))));
}

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/admin.hpp"

#include "protocol/admin.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/memories.hpp"
#include "server/live/node_board.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace {

namespace admin = protocol::admin;
using protocol::errc;

/// What clear_all() has done.
struct clear_result {
    admin::clearing done;
    std::optional<storage::failure> fault;  // the first; the others were tried all the same
    int failed = 0;
    bool found_any = false;  // an agent that was to be cleared
};

/// Forgets all idle agents of all tenants. `model`: as for forget(). Goes on after a failure.
/// Blocks.
clear_result clear_all(engine::engine& engine, const std::optional<std::string>& model) {
    clear_result result;
    const std::uint64_t held_before = engine.pool().frames_held;
    for (const engine::agent_info& agent : engine.agents_of_all()) {
        // Without a memory under this model there is nothing to forget.
        if (model && models_meant(agent, *model).empty()) continue;
        result.found_any = true;
        if (agent.in_use) {
            ++result.done.kept;
            continue;
        }
        auto erased = forget(engine, agent, model);
        if (!erased && erased.error().code == storage::errc::not_found) continue;  // by others
        if (!erased) {
            if (!result.fault) result.fault = erased.error();
            ++result.failed;
            continue;
        }
        const auto left = engine.inspect(agent.id);
        result.done.hot += agent.hot && !(left && left->is_remembered) ? 1 : 0;
        ++result.done.on_disk;
    }
    const std::uint64_t held = engine.pool().frames_held;
    result.done.frames = held_before > held ? held_before - held : 0;
    return result;
}

}  // namespace

response get_nodes(const services& server, const request&) {
    return json_response("{\"nodes\":" + nodes_text(server) + "}");
}

net::awaitable<std::optional<response>> delete_caches(const services& server,
                                                      const request& incoming, client_link&) {
    const std::optional<std::string> model = incoming.query("model");
    auto work = [&] { return clear_all(*incoming.engine, model); };
    clear_result cleared = co_await run_on(server.workers, work);
    if (model && !cleared.found_any)
        co_return error_response(
            incoming, fail(errc::not_found, "no model " + *model + " remembers an agent", "model"));
    log_event(log_level::warning, incoming.id_for_log(),
              "caches cleared: " + std::to_string(cleared.done.on_disk) + " agents");
    if (cleared.fault) {
        protocol::failure failure = public_fault(incoming, *cleared.fault);
        failure.message = "cleared " + std::to_string(cleared.done.on_disk) + " agents, but " +
                          std::to_string(cleared.failed) + " not: " + failure.message;
        co_return error_response(incoming, failure);
    }
    co_return json_response(admin::cleared_body(cleared.done));
}

response post_seed(const services& server, const request& incoming) {
    auto seed = admin::parse_seed(incoming.body);
    if (!seed) return error_response(incoming, seed.error());
    server.seed.set(*seed);
    return json_response(admin::seed_body(*seed));
}

}  // namespace semantic::server

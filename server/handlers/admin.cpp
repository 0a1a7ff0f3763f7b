#include "server/handlers/admin.hpp"

#include "protocol/admin.hpp"
#include "server/handlers/answer.hpp"
#include "server/handlers/memories.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace {

namespace admin = protocol::admin;
using protocol::errc;

struct clear_result {
    admin::clearing done;
    std::optional<storage::failure> fault;  // the first; the others were tried all the same
    int failed = 0;
    bool found_any = false;  // an agent that was to be cleared
};

/// Blocks. `model`: as forget().
clear_result clear_all(engine::engine& engine, const std::optional<std::string>& model) {
    clear_result result;
    const std::uint64_t held_before = engine.pool().frames_held;
    for (const engine::agent_info& agent : engine.agents_of_all()) {
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

response refuse_reload(const request& incoming, const std::string& loaded) {
    return error_response(
        incoming, fail(errc::unsupported,
                       "this server runs " + loaded +
                           " from start to stop; start another with --model, agents of both "
                           "may share a --cache-dir one after the other"));
}

}  // namespace

net::awaitable<std::optional<response>> delete_caches(const services& with, const request& incoming,
                                                      client_link&) {
    const std::optional<std::string> model = incoming.query("model");
    auto work = [&] { return clear_all(*with.engines.get(), model); };
    clear_result cleared = co_await run_on(with.workers, work);
    if (model && !cleared.found_any)
        co_return error_response(
            incoming, fail(errc::not_found, "no model " + *model + " remembers an agent", "model"));
    log_event(log_level::warning, incoming.id,
              "caches cleared: " + std::to_string(cleared.done.on_disk) + " agents");
    if (cleared.fault) {
        protocol::failure told = protocol::from_storage(*cleared.fault);
        told.what = "cleared " + std::to_string(cleared.done.on_disk) + " agents, but " +
                    std::to_string(cleared.failed) + " not: " + told.what;
        co_return error_response(incoming, told);
    }
    co_return json_response(admin::cleared_body(cleared.done));
}

response post_seed(const services& with, const request& incoming) {
    auto seed = admin::parse_seed(incoming.body);
    if (!seed) return error_response(incoming, seed.error());
    with.seed.set(*seed);
    return json_response(admin::seed_body(*seed));
}

response get_current_model(const services& with, const request&) {
    const engine::model_info& info = with.engines.get()->info();
    return json_response(admin::current_body(
        {info.id, info.layers, info.kv_heads, info.head_dim, info.block_tokens}));
}

response get_available_models(const services& with, const request&) {
    return json_response(admin::available_body({with.engines.get()->info().id}));
}

response post_swap_model(const services& with, const request& incoming) {
    auto wanted = admin::parse_swap(incoming.body);
    if (!wanted) return error_response(incoming, wanted.error());
    const std::string& loaded = with.engines.get()->info().id;
    if (wanted->model != loaded) return refuse_reload(incoming, loaded);
    return json_response(admin::swapped_body(loaded));
}

response post_offload_model(const services& with, const request& incoming) {
    return refuse_reload(incoming, with.engines.get()->info().id);
}

}  // namespace semantic::server

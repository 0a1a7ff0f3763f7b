// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/models/model_changes.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <utility>

#include "protocol/admin.hpp"
#include "protocol/models.hpp"
#include "protocol/wire/public_text.hpp"
#include "protocol/wire/sse.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/models/models.hpp"
#include "server/http/middleware.hpp"
#include "server/http/sse_writer.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/tokens.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

namespace {

namespace admin = protocol::admin;
using protocol::errc;
using reply = std::optional<response>;
using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_every{20};
// Progress is rounded to this many steps, so that few events are sent.
constexpr double steps_shown = 20.0;

/// A past state of the slot, as clients see it.
admin::swap_step step_of(const services& server, const slot_state& state) {
    admin::swap_step step;
    step.phase = to_string(state.phase);
    step.model = model_name(server, state.model);
    step.target = model_name(server, state.target);
    step.why = protocol::without_directories(state.why);
    return step;
}

/// The present state of the slot, with the progress of its load.
admin::swap_step step_now(const services& server, const engine_slot& slot, const slot_state& now) {
    admin::swap_step step = step_of(server, now);
    if (now.phase != slot_phase::loading) return step;
    const engine::load_progress progress = slot.progress();
    step.stage = progress.stage;
    step.fraction = static_cast<int>(progress.fraction * steps_shown) / steps_shown;
    return step;
}

/// The error for a change that did not end with `wanted` loaded: why not, and which model runs now.
protocol::failure not_swapped(const services& server, const slot_state& now, std::size_t wanted) {
    std::string message = model_name(server, wanted) + " is not loaded: ";
    message += now.why.empty() ? "the model was changed again meanwhile"
                               : protocol::without_directories(now.why);
    if (now.phase == slot_phase::ready)
        message += ". " + model_name(server, now.model) + " runs";
    else
        message += ". No model runs; POST /admin/models/swap loads one";
    return fail(errc::internal, std::move(message));
}

/// Waits for the end of a change of models, and replies to its client.
class swap_watch {
  public:
    /// `slot`: where the change is. `change`: its number (engine_slot::change).
    swap_watch(const services& server, std::size_t slot, std::uint64_t change,
               const request& incoming, client_link& client)
        : server_(server),
          slot_(server.engines.at(slot)),
          change_(change),
          incoming_(incoming),
          client_(client),
          writer_(client, incoming) {}

    /// Waits until `wanted` is loaded or the change failed. `before`: the model until now, for the
    /// reply. `streams`: sends each phase as an event.
    net::awaitable<reply> run(std::string before, std::size_t wanted, bool streams) {
        const slot_state now = co_await settled(streams);
        if (client_.is_gone()) co_return std::nullopt;
        const bool is_swapped = now.phase == slot_phase::ready && now.model == wanted;
        const std::string name = model_name(server_, wanted);
        if (!streams && is_swapped) co_return json_response(admin::swapped_body(before, name));
        protocol::failure fault = not_swapped(server_, now, wanted);
        if (!is_settled(now.phase))
            fault = fail(errc::shutting_down, "the server is shutting down");
        if (!streams) co_return error_response(incoming_, fault);
        const std::string last =
            is_swapped ? admin::swapped_event(before, name)
                       : protocol::error_event(incoming_.dialect, fault, incoming_.id);
        co_await writer_.write(last);
        co_await writer_.finish();
        co_return std::nullopt;
    }

    /// Waits until the model `before` is unloaded.
    net::awaitable<reply> run_to_none(std::string before) {
        const slot_state now = co_await settled(false);
        if (client_.is_gone()) co_return std::nullopt;
        if (now.phase == slot_phase::ready)
            co_return error_response(
                incoming_, fail(errc::internal, before + " is not unloaded: " +
                                                    protocol::without_directories(now.why)));
        co_return json_response(admin::unloaded_body(before));
    }

  private:
    /// Polls the slot. Returns: its state when the change is over, the client has gone, or the
    /// server stops.
    net::awaitable<slot_state> settled(bool streams) {
        net::steady_timer timer(client_.executor());
        while (true) {
            if (streams) co_await send_path();
            // Another change may have begun since the last poll, so the outcome of this one is
            // asked for by its number.
            const auto outcome = slot_.outcome(change_);
            const slot_state now = outcome ? *outcome : slot_.state();
            const bool has_sent_all =
                !streams || slot_.change() != change_ || states_sent_ == slot_.path().size();
            const bool is_over = (is_settled(now.phase) && has_sent_all) || server_.stopping.load();
            if (is_over || client_.is_gone()) co_return now;
            timer.expires_after(look_every);
            [[maybe_unused]] auto [error] = co_await timer.async_wait(use_tuple);
        }
    }
    /// Sends every phase that was entered since the last look, however short, and the progress of
    /// the last one.
    net::awaitable<void> send_path() {
        const std::vector<slot_state> path = slot_.path();
        if (path.empty()) co_return;
        // A shorter path is that of another change.
        if (states_sent_ > path.size()) states_sent_ = 0;
        for (; states_sent_ < path.size() && !client_.is_gone(); ++states_sent_)
            co_await send_event(admin::step_event(step_of(server_, path[states_sent_])));
        co_await send_event(admin::step_event(step_now(server_, slot_, path.back())));
    }
    /// Sends an event that differs from the last one; a ping where nothing was sent for long.
    net::awaitable<void> send_event(std::string event) {
        const bool is_silent = clock::now() - written_ >= client_.ping_every();
        if (event == last_event_ && !is_silent) co_return;
        if (event == last_event_)
            event = protocol::sse_comment("ping");
        else
            last_event_ = event;
        written_ = clock::now();
        co_await writer_.write(event);
    }

    const services& server_;
    const engine_slot& slot_;
    const std::uint64_t change_;
    const request& incoming_;
    client_link& client_;
    sse_writer writer_;
    std::size_t states_sent_ = 0;  // of the path of the change
    std::string last_event_;
    clock::time_point written_ = clock::now();
};

}  // namespace

response get_current_model(const services& server, const request& incoming) {
    const engine_lease engine = server.engines.look();
    if (server.engines.state().phase == slot_phase::empty)
        return json_response(admin::no_current_body());
    if (!engine)
        if (auto refused = refuse_without_engine(server, incoming)) return std::move(*refused);
    // A change has ended between the two looks.
    if (!engine) return error_response(incoming, fail(errc::overloaded, "try again"));
    const engine::model_info& info = engine->info();
    return json_response(admin::current_body(
        {info.id, info.layers, info.kv_heads, info.head_dim, info.block_tokens}));
}

response get_available_models(const services& server, const request&) {
    return json_response(admin::available_body(loadable_models(server)));
}

namespace {

/// Checks whether the load is certain to fail, before running requests are disturbed. Returns: why;
/// nothing: it may succeed.
net::awaitable<std::optional<protocol::failure>> fault_of(const services& server, std::size_t model,
                                                          std::size_t slot) {
    auto look = [&] { return fault_in_slot(server, model, slot); };
    const std::string fault = co_await run_on(server.workers, look);
    if (fault.empty()) co_return std::nullopt;
    server.models.has_failed(model, fault);
    co_return fail(errc::conflict, model_name(server, model) + " cannot be loaded: " +
                                       protocol::without_directories(fault));
}

std::chrono::milliseconds drain_of(const admin::swap_request& wanted) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(wanted.timeout_seconds));
}

/// The slot in which the model is ready; nothing: in none.
std::optional<std::size_t> slot_with(const services& server, std::size_t model) {
    const auto slot = server.engines.find(model);
    if (!slot || server.engines.at(*slot).state().phase != slot_phase::ready) return std::nullopt;
    return slot;
}

/// A slot without a model; nothing: there is none.
std::optional<std::size_t> free_slot(const services& server) {
    for (std::size_t i = 0; i < server.engines.size(); ++i) {
        const slot_phase phase = server.engines.at(i).state().phase;
        if (phase == slot_phase::empty || phase == slot_phase::failed) return i;
    }
    return std::nullopt;
}

/// Why no further model can be loaded.
protocol::failure none_free(const services& server, const std::string& loaded) {
    const std::size_t most = server.engines.size();
    if (most == 1)
        return fail(errc::conflict,
                    loaded +
                        " is loaded, and one model is at a time: POST /admin/models/swap puts "
                        "another in its place");
    return fail(errc::conflict, std::to_string(most) +
                                    " models are loaded, as many as max-loaded allows: POST "
                                    "/admin/models/unload makes room for one, POST "
                                    "/admin/models/swap puts another in the place of " +
                                    loaded);
}

/// Loads the model that the request names. `may_replace`: in place of the usual one; else in a free
/// slot.
net::awaitable<reply> change_model(const services& server, const request& incoming,
                                   client_link& client, bool may_replace) {
    auto parse = [&] { return admin::parse_swap(incoming.body); };
    auto wanted = co_await parse_body(server, incoming, parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    std::size_t slot = server.engines.usual_index();
    const std::string usual = model_name(server, server.engines.at(slot).state().model);
    const auto model = server.models.list().find(wanted->model);
    if (!model)
        co_return error_response(
            incoming, protocol::no_such_model(wanted->model, usual, server.models.list().names()));
    const std::string name = model_name(server, model);
    if (slot_with(server, *model)) co_return json_response(admin::swapped_body(name, name));
    if (!may_replace) {
        const auto free = free_slot(server);
        if (!free) co_return error_response(incoming, none_free(server, usual));
        slot = *free;
    }
    const std::string before = model_name(server, server.engines.at(slot).state().model);
    auto fault = co_await fault_of(server, *model, slot);
    if (fault) co_return error_response(incoming, *fault);
    const auto change = server.switcher.ask(slot, model, drain_of(*wanted));
    if (!change) co_return error_response(incoming, change.error());
    log_event(log_level::warning, incoming.id_for_log(), "changing the model to " + name);
    swap_watch watch(server, slot, *change, incoming, client);
    co_return co_await watch.run(before, *model, wanted->stream);
}

}  // namespace

net::awaitable<reply> post_swap_model(const services& server, const request& incoming,
                                      client_link& client) {
    co_return co_await change_model(server, incoming, client, true);
}

net::awaitable<reply> post_load_model(const services& server, const request& incoming,
                                      client_link& client) {
    co_return co_await change_model(server, incoming, client, false);
}

net::awaitable<reply> post_unload_model(const services& server, const request& incoming,
                                        client_link& client) {
    auto parse = [&] { return admin::parse_unload(incoming.body); };
    auto wanted = co_await parse_body(server, incoming, parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    std::size_t slot = server.engines.usual_index();
    const std::string usual = model_name(server, server.engines.at(slot).state().model);
    const auto model = server.models.list().find(wanted->model);
    if (!wanted->model.empty() && !model)
        co_return error_response(
            incoming, protocol::no_such_model(wanted->model, usual, server.models.list().names()));
    const auto there = model ? slot_with(server, *model) : slot;
    if (!there) {
        const std::string runs = usual.empty() ? "none is" : usual + " is";
        co_return error_response(
            incoming, fail(errc::conflict, model_name(server, model) + " is not loaded; " + runs));
    }
    slot = *there;
    const std::string before = model_name(server, server.engines.at(slot).state().model);
    const auto change = server.switcher.ask(slot, std::nullopt, drain_of(*wanted));
    if (!change) co_return error_response(incoming, change.error());
    log_event(log_level::warning, incoming.id, "unloading the model");
    swap_watch watch(server, slot, *change, incoming, client);
    co_return co_await watch.run_to_none(before);
}

}  // namespace semantic::server

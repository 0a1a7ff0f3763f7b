// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/models/models.hpp"

#include <algorithm>
#include <utility>

#include "protocol/answer_request.hpp"
#include "protocol/models.hpp"
#include "protocol/responses/codex_catalog.hpp"
#include "protocol/wire/public_text.hpp"
#include "server/http/middleware.hpp"
#include "server/runtime/workers.hpp"
#include "server/workers/request_workers.hpp"

namespace semantic::server {

namespace {

using reply = std::optional<response>;

/// Whether a model is loaded, as clients see it.
struct model_state {
    std::string name;
    std::string why;
};

/// "loaded", "loading", "failed" with the reason, or "available".
model_state state_of(const services& server, std::size_t model) {
    std::string why = server.models.list().at(model).fault;
    if (why.empty()) why = server.models.failure(model);
    if (const auto slot = server.engines.find(model)) {
        const slot_state now = server.engines.at(*slot).state();
        if (now.model == model) return {has_engine(now.phase) ? "loaded" : "loading", {}};
        if (now.target == model) return {"loading", {}};
    }
    if (!why.empty()) return {"failed", std::move(why)};
    return {"available", {}};
}

/// Describes one model. `pool_bytes`: the pool that it would have, for its capacity. Blocks: reads
/// the files of a model that was never loaded.
described_model describe(const services& server, std::size_t model, std::uint64_t pool_bytes) {
    const registered_model& entry = server.models.list().at(model);
    const model_facts facts = server.models.facts(model, pool_bytes);
    const engine::model_info& info = facts.info;
    model_state state = state_of(server, model);
    if (state.name == "available" && !facts.fault.empty()) state = {"failed", facts.fault};
    protocol::model_card card{entry.name, entry.name, info.created_unix, info.context_tokens_max};
    card.max_tokens = protocol::request_limits().max_tokens_max;
    card.thinks = info.answers.thinking != engine::thinking_format::none;
    card.has_effort = info.chat_template == "harmony";
    card.kv_bits = info.kv_bits;
    card.kv_recipe = info.kv_recipe;
    card.kv_recipe_reason = info.kv_recipe_reason;
    card.call_format = name_of(info.answers.calls);
    card.thinking_format = name_of(info.answers.thinking);
    card.chat_template = info.chat_template;
    card.chat_template_reason = info.chat_template_reason;
    card.chat_abilities = info.chat_abilities;
    card.state = std::move(state.name);
    card.state_reason = protocol::without_directories(state.why);
    card.aliases = entry.aliases;
    card.kv_bytes_per_token = info.kv_bytes_per_token;
    card.agents_4k = info.pool_agents_4k;
    card.agents_16k = info.pool_agents_16k;
    return {std::move(card), info};
}

/// What clients see of all models. Blocks.
std::vector<protocol::model_card> cards(const services& server) {
    std::vector<protocol::model_card> all;
    for (described_model& each : describe_models(server)) all.push_back(std::move(each.card));
    return all;
}

response reply_with(const request& to, protocol::result<std::string> body) {
    return body ? json_response(std::move(*body)) : error_response(to, body.error());
}

}  // namespace

std::vector<described_model> describe_models(const services& server) {
    const slot_state now = server.engines.state();
    std::vector<std::size_t> order = server.engines.models_beside();
    // The usual one first.
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t model) { return now.model == model; });
    const engine_lease engine = server.engines.look();
    const std::uint64_t pool_bytes = engine ? engine->info().pool_bytes : 0;
    for (std::size_t i = 0; i < server.models.list().size(); ++i)
        if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
    std::vector<described_model> all;
    for (const std::size_t each : order) all.push_back(describe(server, each, pool_bytes));
    return all;
}

// A list of models is refused until the first one is loaded, because clients wait for the server by
// asking for it.
std::optional<response> refuse_before_start(const services& server, const request& incoming) {
    const slot_state now = server.engines.state();
    const bool is_starting = now.is_start || now.phase == slot_phase::idle;
    if (is_starting || server.stopping.load()) return refuse_without_engine(server, incoming);
    return std::nullopt;
}

net::awaitable<reply> get_models(const services& server, const request& incoming, client_link&) {
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    protocol::models_query query{incoming.query("limit"), incoming.query("after_id"),
                                 incoming.query("before_id")};
    protocol::model_entry entry;
    if (incoming.query("client_version")) entry = protocol::responses::catalog_entry;
    auto read = [&] { return cards(server); };
    const auto all = co_await run_on(choose_workers(server, incoming), read);
    co_return reply_with(incoming, protocol::models_body(all, query, entry));
}

net::awaitable<reply> get_model(const services& server, const request& incoming, client_link&) {
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    auto read = [&] { return cards(server); };
    const auto all = co_await run_on(choose_workers(server, incoming), read);
    co_return reply_with(incoming, protocol::model_body(all, incoming.parameter));
}

std::string model_name(const services& server, std::optional<std::size_t> model) {
    return model ? server.models.list().at(*model).name : std::string();
}

std::string fault_in_slot(const services& server, std::size_t model, std::size_t slot) {
    return fault_of_model(server.models, server.engines, model, slot);
}

std::vector<std::string> loadable_models(const services& server) {
    std::vector<std::string> names;
    for (const registered_model& each : server.models.list().models())
        if (each.fault.empty()) names.push_back(each.name);
    return names;
}

}  // namespace semantic::server

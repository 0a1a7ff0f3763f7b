// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/dialects/ollama.hpp"

#include <chrono>
#include <utility>

#include "protocol/ollama/models.hpp"
#include "protocol/ollama/reply.hpp"
#include "protocol/ollama/request.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/models/models.hpp"

namespace semantic::server {

namespace {

namespace ollama = protocol::ollama;
using protocol::errc;
using reply = std::optional<response>;
using parser = protocol::result<ollama::ollama_request> (*)(std::string_view,
                                                            const ollama::ollama_limits&);

/// The API version that is reported. Clients compare it with the first version that has a feature;
/// this one is later than thinking, tools while streaming and structured outputs.
constexpr const char* api_version = R"({"version":"0.12.0"})";

ollama::ollama_limits ollama_limits_of(const services& server) {
    ollama::ollama_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    return limits;
}

/// A model as this API lists it.
ollama::listed_model listed(const described_model& model) {
    const engine::model_info& info = model.info;
    // A model that was never loaded has no fingerprint.
    const bool has_engine = info.fingerprint != storage::block_hash{};
    return {.card = model.card,
            .family = info.family,
            .fingerprint = has_engine ? info.fingerprint.hex() : std::string(),
            .weight_bytes = info.weight_bytes,
            .memory_bytes = info.weight_bytes + info.pool_bytes,
            .layers = info.layers,
            .kv_heads = info.kv_heads,
            .head_dim = info.head_dim,
            .vocabulary = info.vocabulary};
}

/// All models, read on a worker.
net::awaitable<std::vector<ollama::listed_model>> list_models(const services& server,
                                                              const request& incoming) {
    auto read = [&] {
        std::vector<ollama::listed_model> all;
        for (const described_model& each : describe_models(server)) all.push_back(listed(each));
        return all;
    };
    co_return co_await run_on(choose_workers(server, incoming), read);
}

response reply_with(const request& to, protocol::result<std::string> body) {
    return body ? json_response(std::move(*body)) : error_response(to, body.error());
}

/// Answers a request of either kind: reads it with `parse_as` and replies in the form of `kind`.
net::awaitable<reply> answer(const services& server, const request& incoming, client_link& client,
                             ollama::reply_kind kind, parser parse_as) {
    running_answer counted(server.probe);
    const auto asked_at = std::chrono::system_clock::now();
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parse = [&] { return parse_as(incoming.body, ollama_limits_of(server)); };
    auto parsed = co_await parse_body(server, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(server, incoming, parsed->model)) co_return refused;

    ollama::reply_options options{kind, parsed->model, asked_at,
                                  [] { return std::chrono::system_clock::now(); },
                                  parsed->left_out};
    if (parsed->is_empty) co_return json_response(ollama::empty_reply(options));
    protocol::id_maker ids(random_bits);
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(server));
    wanted.agent_may_branch = true;
    answer_context asked{server, incoming, client};
    if (parsed->stream) {
        ollama::answer_stream stream(std::move(options), ids);
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    ollama::answer_collector collector(std::move(options), ids);
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

}  // namespace

net::awaitable<reply> post_ollama_chat(const services& server, const request& incoming,
                                       client_link& client) {
    return answer(server, incoming, client, ollama::reply_kind::chat, ollama::parse_chat);
}

net::awaitable<reply> post_ollama_generate(const services& server, const request& incoming,
                                           client_link& client) {
    return answer(server, incoming, client, ollama::reply_kind::generate, ollama::parse_generate);
}

net::awaitable<reply> get_ollama_tags(const services& server, const request& incoming,
                                      client_link&) {
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    co_return json_response(ollama::tags_body(co_await list_models(server, incoming)));
}

net::awaitable<reply> get_ollama_running(const services& server, const request& incoming,
                                         client_link&) {
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    co_return json_response(ollama::running_body(co_await list_models(server, incoming)));
}

net::awaitable<reply> post_ollama_show(const services& server, const request& incoming,
                                       client_link&) {
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    auto parse = [&] { return ollama::parse_model_name(incoming.body, ollama_limits_of(server)); };
    auto name = co_await parse_body(server, incoming, parse);
    if (!name) co_return error_response(incoming, name.error());
    const auto models = co_await list_models(server, incoming);
    co_return reply_with(incoming, ollama::show_body(models, *name));
}

net::awaitable<reply> post_ollama_pull(const services& server, const request& incoming,
                                       client_link&) {
    if (auto refused = refuse_before_start(server, incoming)) co_return refused;
    auto parse = [&] { return ollama::parse_model_name(incoming.body, ollama_limits_of(server)); };
    auto name = co_await parse_body(server, incoming, parse);
    if (!name) co_return error_response(incoming, name.error());
    const auto models = co_await list_models(server, incoming);
    if (ollama::find(models, *name) == nullptr) {
        protocol::failure none = ollama::no_model(*name);
        none.message += "; this server fetches no models, it lists those in its models-dir";
        co_return error_response(incoming, none);
    }
    co_return text_response("{\"status\":\"success\"}\n", "application/x-ndjson");
}

response get_ollama_version(const services&, const request&) { return json_response(api_version); }

response refuse_ollama_embeddings(const services&, const request& to) {
    return error_response(to, fail(errc::unsupported,
                                   "the model is no embedding model: it was made to continue text, "
                                   "and what it computes on the way is no measure of likeness"));
}

response refuse_ollama(const services&, const request& to) {
    return error_response(
        to, fail(errc::unsupported,
                 "this server answers with the models it was started with: it does not make, copy, "
                 "delete or send models"));
}

}  // namespace semantic::server

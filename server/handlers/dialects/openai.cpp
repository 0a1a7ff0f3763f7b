// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/dialects/openai.hpp"

#include <chrono>

#include "protocol/openai/chat.hpp"
#include "protocol/openai/chat_stream.hpp"
#include "protocol/openai/completions.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/answer/answer.hpp"

namespace semantic::server {

namespace {

namespace openai = protocol::openai;
using reply = std::optional<response>;

openai::chat_limits chat_limits_of(const services& server) {
    openai::chat_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    return limits;
}

/// The system_fingerprint: it changes when model, kernels, weights or KV recipe do, since then the
/// same seed may give another answer.
std::string fingerprint_of(const engine::model_info& info) {
    return openai::system_fingerprint(info.id + "/" + info.kernels + "/" +
                                      std::to_string(info.weight_bytes) + "/" + info.kv_recipe);
}

/// The options that the request and the answering model decide.
openai::reply_options options_of(const openai::chat_request& parsed, std::string id,
                                 const engine::model_info& info) {
    openai::reply_options options;
    options.completion_id = std::move(id);
    options.model = parsed.model;
    options.system_fingerprint = fingerprint_of(info);
    options.created_unix = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
    options.include_usage = parsed.include_usage;
    options.choices = parsed.choices;
    options.tool_calls_max = parsed.tool_calls_max;
    options.left_out = parsed.left_out;
    options.text_tools = parsed.text_tools;
    return options;
}

}  // namespace

net::awaitable<reply> post_chat_completions(const services& server, const request& incoming,
                                            client_link& client) {
    running_answer counted(server.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parent = parent_of_headers(incoming);
    if (!parent) co_return error_response(incoming, parent.error());
    auto parse = [&] { return openai::parse_chat(incoming.body, chat_limits_of(server)); };
    auto parsed = co_await parse_body(server, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    const engine::model_info& info = incoming.engine->info();
    if (auto refused = refuse_other_model(server, incoming, parsed->model)) co_return refused;

    protocol::id_maker ids(random_bits);
    openai::reply_options options = options_of(*parsed, ids.completion_id(), info);
    auto wanted = parsed->take_generation(parsed->agent ? parsed->agent : std::move(*agent),
                                          answer_deadline(server));
    wanted.agent_may_branch = true;
    wanted.parent = std::move(*parent);
    wanted.message_id = options.completion_id;
    answer_context asked{server, incoming, client};
    if (parsed->stream) {
        openai::chat_stream stream(std::move(options), ids);
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    openai::chat_collector collector(std::move(options), ids);
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

response refuse_embeddings(const services&, const request& incoming) {
    return error_response(
        incoming, protocol::fail(protocol::errc::unsupported,
                                 "the model is no embedding model: it was made to continue text, "
                                 "and what it computes on the way is no measure of likeness. Use "
                                 "a server with an embedding model for /v1/embeddings",
                                 "model"));
}

net::awaitable<reply> post_completions(const services& server, const request& incoming,
                                       client_link& client) {
    running_answer counted(server.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parse = [&] { return openai::parse_completion(incoming.body, chat_limits_of(server)); };
    auto parsed = co_await parse_body(server, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(server, incoming, parsed->model)) co_return refused;

    protocol::id_maker ids(random_bits);
    openai::reply_options options = options_of(*parsed, ids.make("cmpl-"), incoming.engine->info());
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(server));
    wanted.agent_may_branch = true;
    wanted.message_id = options.completion_id;
    answer_context asked{server, incoming, client};
    if (parsed->stream) {
        openai::completion_stream stream(std::move(options));
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    openai::completion_collector collector(std::move(options));
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

}  // namespace semantic::server

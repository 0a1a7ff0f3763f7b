#include "server/handlers/responses.hpp"

#include <chrono>
#include <utility>

#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/answer.hpp"

namespace semantic::server {

namespace {

namespace responses = protocol::responses;
using reply = std::optional<response>;

responses::response_limits limits_of(const services& with) {
    responses::response_limits limits;
    limits.json.bytes_max = with.limits.body_bytes_max;
    return limits;
}

responses::reply_options options_of(responses::response_request& parsed, std::string id) {
    responses::reply_options options;
    options.response_id = std::move(id);
    options.model = parsed.model;
    options.created_unix = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
    options.repeated = std::move(parsed.repeated);
    options.text_tools = std::move(parsed.text_tools);
    options.left_out = std::move(parsed.left_out);
    options.seals_reasoning = parsed.seals_reasoning;
    options.tool_calls_max = parsed.tool_calls_max;
    return options;
}

}  // namespace

net::awaitable<reply> post_responses(const services& with, const request& incoming,
                                     client_link& client) {
    running_answer counted(with.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parse = [&] { return responses::parse_response(incoming.body, limits_of(with)); };
    auto parsed = co_await parse_body(with, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(with, incoming, parsed->model)) co_return refused;

    protocol::id_maker ids(random_bits);
    responses::reply_options options = options_of(*parsed, ids.make("resp_"));
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(with));
    wanted.agent_may_branch = true;
    answer_context asked{with, incoming, client};
    if (parsed->stream) {
        responses::response_stream stream(std::move(options), ids);
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    responses::response_collector collector(std::move(options), ids);
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

response get_responses(const services&, const request& incoming) {
    constexpr int upgrade_required = 426;
    response reply = error_response(
        incoming,
        protocol::fail(protocol::errc::method_not_allowed,
                       "responses are not served over a WebSocket; send a POST to /v1/responses"),
        upgrade_required);
    reply.fields.emplace_back("upgrade", "HTTP/1.1");
    return reply;
}

}  // namespace semantic::server

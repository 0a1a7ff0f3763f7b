#include "server/handlers/anthropic.hpp"

#include "protocol/anthropic/message_stream.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/ids.hpp"
#include "server/handlers/answer.hpp"

namespace semantic::server {

namespace {

namespace anthropic = protocol::anthropic;
using reply = std::optional<response>;

anthropic::messages_limits limits_of(const services& with) {
    anthropic::messages_limits limits;
    limits.json.bytes_max = with.limits.body_bytes_max;
    return limits;
}

}  // namespace

net::awaitable<reply> post_messages(const services& with, const request& incoming,
                                    client_link& client) {
    running_answer counted(with.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parse = [&] { return anthropic::parse_messages(incoming.body, limits_of(with)); };
    auto parsed = co_await parse_body(with, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(with, incoming, parsed->model)) co_return refused;

    protocol::id_maker ids(random_bits);
    anthropic::reply_options options{
        ids.message_id(),       incoming.id,       parsed->model,
        parsed->tool_calls_max, parsed->shows_thinking, parsed->hides_thinking,
        parsed->diagnoses,      parsed->previous_message_id};
    if (protocol::is_side_request(identity_of(incoming), !parsed->chat.tools.empty()))
        *agent = std::nullopt;
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(with));
    answer_context asked{with, incoming, client};
    if (parsed->stream) {
        anthropic::message_stream stream(std::move(options), ids);
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    anthropic::message_collector collector(std::move(options), ids);
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

net::awaitable<reply> post_count_tokens(const services& with, const request& incoming,
                                        client_link&) {
    auto parse = [&] { return anthropic::parse_count_tokens(incoming.body, limits_of(with)); };
    auto parsed = co_await parse_body(with, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    auto count = [&] { return with.engines.get()->count_tokens(parsed->chat, parsed->thinking); };
    auto tokens = co_await run_on(with.workers, count);
    if (!tokens) co_return error_response(incoming, protocol::from_storage(tokens.error()));
    co_return json_response(anthropic::count_tokens_body(*tokens));
}

response post_event_logging(const services&, const request&) {
    return json_response(R"({"status":"ok"})");
}

}  // namespace semantic::server

#include "server/handlers/dialects/responses.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/responses/response_keeper.hpp"
#include "server/runtime/logging.hpp"

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

/// The response is kept by its id when it is complete, as its request wanted.
template <class Reply>
class response_keeping final : public before_end {
  public:
    response_keeping(const services& with, const request& incoming, Reply& made,
                     responses::response_request& parsed)
        : with_(with),
          incoming_(incoming),
          made_(made),
          previous_(std::move(parsed.previous)),
          input_(std::move(parsed.input)) {}

    net::awaitable<void> run() override {
        const boost::json::object& response = made_.response();
        const auto* status = response.if_contains("status");
        if (status == nullptr || *status == "failed") co_return;
        auto keep = [this, &response] { return keep_now(response); };
        const storage::result<void> kept = co_await run_on(with_.workers, keep);
        if (!kept)
            log_event(log_level::warning, incoming_.who(),
                      "response not kept: " + kept.error().what);
    }

  private:
    storage::result<void> keep_now(const boost::json::object& response) {
        protocol::id_maker ids(random_bits);
        responses::kept_response made;
        made.id = std::string(response.at("id").as_string());
        made.previous = previous_;
        made.created_unix = response.at("created_at").as_int64();
        made.input = protocol::to_text(responses::named_items(input_, ids));
        made.body = protocol::to_text(response);
        return keep_response(with_.responses, *incoming_.engine, tenant_of(incoming_),
                             std::move(made));
    }
    const services& with_;
    const request& incoming_;
    Reply& made_;
    std::string previous_;
    boost::json::value input_;
};

/// As parse_body(); one that continues a response reads that conversation too, however long.
net::awaitable<protocol::result<responses::response_request>> parse(const services& with,
                                                                    const request& incoming) {
    const auto before = [&](const std::string& id) -> protocol::result<boost::json::array> {
        auto chain = with.responses.chain(tenant_of(incoming), id);
        if (!chain) return chain.error();
        return responses::items_of(*chain);
    };
    // Each response is read once, however many of its items are referred to.
    std::map<std::string, boost::json::value> items;
    std::set<std::string> was_read;
    const auto item = [&](const std::string& id) -> boost::json::value {
        const auto kept = with.responses.find_item(tenant_of(incoming), id);
        if (!kept) return nullptr;
        if (was_read.insert(kept->id).second) items.merge(responses::items_by_id(*kept));
        const auto found = items.find(id);
        return found == items.end() ? boost::json::value() : found->second;
    };
    auto read = [&] {
        return responses::parse_response(incoming.body, limits_of(with), before, item);
    };
    const auto says = [&](const char* word) {
        return incoming.body.find(word) != std::string::npos;
    };
    if (says("previous_response_id") || says("item_reference"))
        co_return co_await run_on(with.workers, read);
    co_return co_await parse_body(with, incoming, read);
}

response not_found(const request& incoming) {
    return error_response(incoming, responses::response_not_found(incoming.parameter));
}

}  // namespace

net::awaitable<reply> post_responses(const services& with, const request& incoming,
                                     client_link& client) {
    running_answer counted(with.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parsed = co_await parse(with, incoming);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(with, incoming, parsed->model)) co_return refused;

    protocol::id_maker ids(random_bits);
    responses::reply_options options = options_of(*parsed, ids.make("resp_"));
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(with));
    wanted.agent_may_branch = true;
    answer_context asked{with, incoming, client};
    if (parsed->stream) {
        responses::response_stream stream(std::move(options), ids);
        response_keeping keeping(with, incoming, stream, *parsed);
        if (parsed->is_kept) asked.at_end = &keeping;
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    responses::response_collector collector(std::move(options), ids);
    response_keeping keeping(with, incoming, collector, *parsed);
    if (parsed->is_kept) asked.at_end = &keeping;
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

response get_response(const services& with, const request& incoming) {
    const auto kept = with.responses.find(tenant_of(incoming), incoming.parameter);
    if (!kept) return not_found(incoming);
    if (incoming.query("stream").value_or("false") != "false")
        return error_response(
            incoming, protocol::fail(protocol::errc::bad_value,
                                     "stream: only a response made in the background is streamed "
                                     "again, and none is made so here",
                                     "stream"));
    return json_response(kept->body);
}

net::awaitable<reply> get_response_items(const services& with, const request& incoming,
                                         client_link&) {
    const auto kept = with.responses.find(tenant_of(incoming), incoming.parameter);
    if (!kept) co_return not_found(incoming);
    const auto page = responses::parse_item_page(incoming.query("limit"), incoming.query("order"),
                                                 incoming.query("after"));
    if (!page) co_return error_response(incoming, page.error());
    auto list = [&] { return responses::input_items_body(*kept, *page); };
    auto body = co_await run_on(with.workers, list);
    if (!body) co_return error_response(incoming, body.error());
    co_return json_response(std::move(*body));
}

net::awaitable<reply> delete_response(const services& with, const request& incoming, client_link&) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto drop = [&] {
        return drop_response(with.responses, *incoming.engine, tenant, incoming.parameter);
    };
    const storage::result<bool> dropped = co_await run_on(with.workers, drop);
    if (!dropped) co_return error_response(incoming, protocol::from_storage(dropped.error()));
    if (!*dropped) co_return not_found(incoming);
    co_return json_response(responses::deleted_body(incoming.parameter));
}

response post_response_cancel(const services& with, const request& incoming) {
    if (!with.responses.find(tenant_of(incoming), incoming.parameter)) return not_found(incoming);
    return error_response(
        incoming, protocol::fail(protocol::errc::bad_value,
                                 "Only responses created with background=true can be cancelled; "
                                 "closing its connection ends any other"));
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

// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/responses/responses.hpp"

#include <boost/json.hpp>

#include <charconv>
#include <utility>

#include "protocol/wire/ids.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/handlers/responses/background.hpp"
#include "server/handlers/responses/compaction.hpp"
#include "server/responses/response_keeper.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace {

namespace responses = protocol::responses;
using protocol::errc;
using reply = std::optional<response>;

response not_found(const request& incoming) {
    return error_response(incoming, responses::response_not_found(incoming.parameter));
}

/// The number after which a stream begins. Events are numbered from 0, so -1 means all. Errors:
/// bad_value.
protocol::result<std::int64_t> starting_after(const request& incoming) {
    const auto text = incoming.query("starting_after");
    if (!text) return -1;
    std::int64_t number = 0;
    const char* end = text->data() + text->size();
    const auto read = std::from_chars(text->data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < 0)
        return protocol::fail(errc::bad_value, "starting_after: must be the number of an event",
                              "starting_after");
    return number;
}

}  // namespace

net::awaitable<reply> post_responses(const services& server, const request& incoming,
                                     client_link& client) {
    running_answer counted(server.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parsed = co_await parse_asked(server, incoming);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(server, incoming, parsed->model)) co_return refused;
    if (parsed->in_background)
        co_return co_await answer_in_background(server, incoming, client, std::move(*parsed));

    auto conversation = hold_conversation(server, incoming, parsed->conversation);
    if (!conversation) co_return error_response(incoming, conversation.error());
    answer_context asked{server, incoming, client};
    const own_lookup no_own;
    std::string summary = co_await compact_when_due(asked, no_own, *parsed);
    protocol::id_maker ids(random_bits);
    std::string response_id = ids.make("resp_");
    responses::reply_options options = reply_options_of(*parsed, response_id);
    const kept_question question(*parsed);
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(server));
    wanted.agent_may_branch = true;
    wanted.only_reads = !parsed->generates;
    wanted.message_id = std::move(response_id);
    const bool is_kept = question.is_kept || !question.conversation.empty();
    if (parsed->stream) {
        responses::response_stream stream(std::move(options), ids);
        stream.put_summary(std::move(summary));
        response_keeping keeping(server, incoming, stream, question);
        if (is_kept) asked.at_end = &keeping;
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    responses::response_collector collector(std::move(options), ids);
    collector.put_summary(std::move(summary));
    response_keeping keeping(server, incoming, collector, question);
    if (is_kept) asked.at_end = &keeping;
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

net::awaitable<reply> get_response(const services& server, const request& incoming,
                                   client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    const auto run = server.responses.background.find(tenant, incoming.parameter);
    if (incoming.query("stream").value_or("false") == "false") {
        // A finished response is kept, unless the disk was full.
        const auto kept = server.responses.stored.find(tenant, incoming.parameter);
        const bool is_kept = kept && (!run || run->has_ended());
        if (!is_kept && !run) co_return not_found(incoming);
        const std::size_t bytes = is_kept ? kept->body.size() : run->bytes();
        auto share = co_await take_reply_share(server, bytes);
        if (!share) co_return error_response(incoming, share.error());
        response whole = json_response(is_kept ? kept->body : run->body());
        whole.share = std::move(*share);
        co_return whole;
    }
    if (run) {
        const auto after = starting_after(incoming);
        if (!after) co_return error_response(incoming, after.error());
        co_return co_await stream_background(incoming, client, run, *after);
    }
    if (!server.responses.stored.find(tenant, incoming.parameter)) co_return not_found(incoming);
    co_return error_response(
        incoming,
        protocol::fail(errc::bad_value,
                       "stream: the events of this response are not kept, only those of one made "
                       "in the background are, for a while; read it without stream",
                       "stream"));
}

net::awaitable<reply> get_response_items(const services& server, const request& incoming,
                                         client_link&) {
    const auto kept = server.responses.stored.find(tenant_of(incoming), incoming.parameter);
    if (!kept) co_return not_found(incoming);
    const auto page = responses::parse_item_page(incoming.query("limit"), incoming.query("order"),
                                                 incoming.query("after"));
    if (!page) co_return error_response(incoming, page.error());
    auto list = [&] { return responses::input_items_body(*kept, *page); };
    co_return co_await reply_with_kept(server, incoming, kept->input.size(), list);
}

net::awaitable<reply> delete_response(const services& server, const request& incoming,
                                      client_link&) {
    const storage::tenant_id tenant = tenant_of(incoming);
    const auto run = server.responses.background.find(tenant, incoming.parameter);
    // True: its response must not be stored any more.
    if (run) run->stop(true);
    server.responses.background.remove(tenant, incoming.parameter);
    auto drop = [&] {
        return drop_response(server.responses.stored, *incoming.engine, tenant, incoming.parameter);
    };
    const storage::result<bool> dropped =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), drop);
    if (!dropped) co_return error_response(incoming, public_fault(incoming, dropped.error()));
    if (!*dropped && !run) co_return not_found(incoming);
    co_return json_response(responses::deleted_body(incoming.parameter));
}

net::awaitable<reply> post_response_cancel(const services& server, const request& incoming,
                                           client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    if (const auto run = server.responses.background.find(tenant, incoming.parameter)) {
        run->stop(false);
        co_await wait_for_end(client, run);
        co_return json_response(run->body());
    }
    const auto kept = server.responses.stored.find(tenant, incoming.parameter);
    if (!kept) co_return not_found(incoming);
    // A response that has ended is returned as it is.
    auto look = [&] { return responses::was_in_background(*kept); };
    const bool was_in_background = co_await read_kept(server, incoming, kept->body.size(), look);
    if (was_in_background) co_return json_response(kept->body);
    co_return error_response(
        incoming,
        protocol::fail(errc::bad_value,
                       "Only responses created with background=true can be cancelled; closing its "
                       "connection ends any other"));
}

}  // namespace semantic::server

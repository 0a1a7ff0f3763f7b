#include "server/handlers/responses/compaction.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <span>
#include <utility>

#include "protocol/responses/compaction.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/responses/asking.hpp"

namespace semantic::server {

namespace {

namespace responses = protocol::responses;
using reply = std::optional<response>;

/// What was said before and what the request has itself.
boost::json::array all_items(const services& with, const request& incoming,
                             const responses::response_request& parsed, protocol::id_maker& ids) {
    boost::json::array items;
    const storage::tenant_id tenant = tenant_of(incoming);
    const auto take = [&](std::span<const kept_responses::kept> from) {
        if (auto before = responses::items_of(from)) items = std::move(*before);
    };
    if (auto chain = with.responses.stored.chain(tenant, parsed.previous)) take(*chain);
    if (auto kept = with.responses.conversations.find(tenant, parsed.conversation))
        take(std::span(&kept, 1));
    for (boost::json::value& each : responses::named_items(parsed.input, ids))
        items.push_back(std::move(each));
    return items;
}

}  // namespace

net::awaitable<reply> post_compact(const services& with, const request& incoming,
                                   client_link& client) {
    running_answer counted(with.probe);
    auto parsed = co_await parse_asked(with, incoming);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(with, incoming, parsed->model)) co_return refused;

    protocol::id_maker ids(random_bits);
    auto gather = [&] { return all_items(with, incoming, *parsed, ids); };
    auto items = co_await run_on(with.workers, gather);
    parsed->max_tokens = std::min(parsed->max_tokens, responses::summary_tokens_max);
    // No agent's memory: what it shares is read from there, and nothing is written over.
    auto wanted = parsed->take_generation(std::nullopt, answer_deadline(with));
    wanted.chat.messages.push_back(
        {engine::role::user, {engine::text_part{std::string(responses::summary_question())}}});
    responses::compaction_collector collector(ids.make("resp_"), seconds_now(), std::move(items),
                                              ids);
    answer_context asked{with, incoming, client};
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/responses/conversations.hpp"

#include <boost/json.hpp>

#include <type_traits>
#include <utility>

#include "protocol/responses/conversations.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/responses/response_keeper.hpp"

namespace semantic::server {

namespace {

namespace responses = protocol::responses;
using reply = std::optional<response>;
using kept_conversation = kept_responses::kept;

/// The id of the conversation in a path that also has an item's id, which is the route's parameter.
std::string conversation_in_path(const request& incoming) {
    constexpr std::string_view head = "/v1/conversations/";
    const std::string_view rest = std::string_view(incoming.path).substr(head.size());
    return percent_decode(rest.substr(0, rest.find('/')));
}

kept_conversation find(const services& server, const request& incoming, const std::string& id) {
    return server.responses.conversations.find(tenant_of(incoming), id);
}

response not_found(const request& incoming, const std::string& id) {
    return error_response(incoming, responses::conversation_not_found(id));
}

/// Parses the body, on a worker where it is long, and frees it.
template <class Parse>
net::awaitable<std::invoke_result_t<Parse&>> parse(const services& server, const request& incoming,
                                                   Parse read) {
    auto parsed = co_await read_kept(server, incoming, incoming.body.size(), read);
    if (incoming.drop_body) incoming.drop_body();
    co_return parsed;
}

/// Replaces the conversation by what `make` makes of it, and stores it. Replies with the body that
/// `answer` makes of the new one.
template <class Answer>
net::awaitable<reply> change(const services& server, const request& incoming, std::string id,
                             conversation_change make, Answer answer) {
    auto write = [&]() -> protocol::result<std::string> {
        const auto changed = change_conversation(server.responses.conversations, *incoming.engine,
                                                 tenant_of(incoming), id, make);
        if (!changed) return changed.error();
        return answer(**changed);
    };
    const auto body =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), write);
    if (!body) co_return error_response(incoming, body.error());
    co_return json_response(*body);
}

}  // namespace

net::awaitable<reply> post_conversations(const services& server, const request& incoming,
                                         client_link&) {
    auto read = [&] {
        // The SDKs send no body where nothing is to be said.
        const bool is_empty = incoming.body.empty();
        return responses::parse_conversation(is_empty ? "{}" : incoming.body,
                                             response_limits_of(server));
    };
    auto parsed = co_await parse(server, incoming, read);
    if (!parsed) co_return error_response(incoming, parsed.error());
    auto write = [&]() -> protocol::result<std::string> {
        protocol::id_maker ids(random_bits);
        auto made = responses::new_conversation(ids.make("conv_"), seconds_now(), *parsed, ids);
        std::string body = responses::conversation_body(made);
        const auto kept = keep_conversation(server.responses.conversations, *incoming.engine,
                                            tenant_of(incoming), std::move(made));
        if (!kept) return protocol::from_storage(kept.error());
        return body;
    };
    const auto body =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), write);
    if (!body) co_return error_response(incoming, body.error());
    co_return json_response(*body);
}

net::awaitable<reply> get_conversation(const services& server, const request& incoming,
                                       client_link&) {
    const kept_conversation one = find(server, incoming, incoming.parameter);
    if (!one) co_return not_found(incoming, incoming.parameter);
    auto read = [&] { return responses::conversation_body(*one); };
    co_return co_await reply_with_kept(server, incoming, one->body.size(), read);
}

net::awaitable<reply> post_conversation(const services& server, const request& incoming,
                                        client_link&) {
    auto read = [&] {
        return responses::parse_metadata(incoming.body, response_limits_of(server));
    };
    const auto metadata = co_await parse(server, incoming, read);
    if (!metadata) co_return error_response(incoming, metadata.error());
    const auto make = [&](const responses::kept_response& now) {
        return protocol::result<responses::kept_response>(responses::with_metadata(now, *metadata));
    };
    co_return co_await change(server, incoming, incoming.parameter, make,
                              responses::conversation_body);
}

net::awaitable<reply> delete_conversation(const services& server, const request& incoming,
                                          client_link&) {
    auto drop = [&] {
        return drop_conversation(server.responses.conversations, *incoming.engine,
                                 tenant_of(incoming), incoming.parameter);
    };
    const storage::result<bool> dropped =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), drop);
    if (!dropped) co_return error_response(incoming, public_fault(incoming, dropped.error()));
    if (!*dropped) co_return not_found(incoming, incoming.parameter);
    co_return json_response(responses::deleted_conversation_body(incoming.parameter));
}

net::awaitable<reply> post_conversation_items(const services& server, const request& incoming,
                                              client_link&) {
    auto read = [&] { return responses::parse_items(incoming.body, response_limits_of(server)); };
    const auto items = co_await parse(server, incoming, read);
    if (!items) co_return error_response(incoming, items.error());
    const auto held = hold_conversation(server, incoming, incoming.parameter);
    if (!held) co_return error_response(incoming, held.error());
    protocol::id_maker ids(random_bits);
    boost::json::array added;
    const auto make = [&](const responses::kept_response& now) {
        return responses::with_items(now, *items, ids, added);
    };
    const auto answer = [&](const responses::kept_response&) {
        return responses::added_body(added);
    };
    co_return co_await change(server, incoming, incoming.parameter, make, answer);
}

net::awaitable<reply> get_conversation_items(const services& server, const request& incoming,
                                             client_link&) {
    const kept_conversation one = find(server, incoming, incoming.parameter);
    if (!one) co_return not_found(incoming, incoming.parameter);
    const auto page = responses::parse_item_page(incoming.query("limit"), incoming.query("order"),
                                                 incoming.query("after"));
    if (!page) co_return error_response(incoming, page.error());
    auto list = [&] { return responses::input_items_body(*one, *page); };
    co_return co_await reply_with_kept(server, incoming, one->input.size(), list);
}

net::awaitable<reply> get_conversation_item(const services& server, const request& incoming,
                                            client_link&) {
    const std::string id = conversation_in_path(incoming);
    const kept_conversation one = find(server, incoming, id);
    if (!one) co_return not_found(incoming, id);
    auto read = [&] { return responses::item_body(*one, incoming.parameter); };
    co_return co_await reply_with_kept(server, incoming, one->input.size(), read);
}

net::awaitable<reply> delete_conversation_item(const services& server, const request& incoming,
                                               client_link&) {
    const std::string id = conversation_in_path(incoming);
    const auto held = hold_conversation(server, incoming, id);
    if (!held) co_return error_response(incoming, held.error());
    const auto make = [&](const responses::kept_response& now) {
        return responses::without_item(now, incoming.parameter);
    };
    co_return co_await change(server, incoming, id, make, responses::conversation_body);
}

}  // namespace semantic::server

#include "server/handlers/responses/conversations.hpp"

#include <boost/json.hpp>

#include <utility>

#include "protocol/responses/conversations.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/responses/response_keeper.hpp"

namespace semantic::server {

namespace {

namespace responses = protocol::responses;
using reply = std::optional<response>;
using kept = kept_responses::kept;

/// Of a path with an item, whose id is the route's parameter.
std::string conversation_in_path(const request& incoming) {
    constexpr std::string_view head = "/v1/conversations/";
    const std::string_view rest = std::string_view(incoming.path).substr(head.size());
    return percent_decode(rest.substr(0, rest.find('/')));
}

kept find(const services& with, const request& incoming, const std::string& id) {
    return with.responses.conversations.find(tenant_of(incoming), id);
}

response not_found(const request& incoming, const std::string& id) {
    return error_response(incoming, responses::conversation_not_found(id));
}

/// Writes it. Returns: what is answered, `body` unless it could not be written.
net::awaitable<reply> keep(const services& with, const request& incoming,
                           responses::kept_response made, std::string body) {
    auto write = [&] {
        return keep_conversation(with.responses.conversations, *incoming.engine,
                                 tenant_of(incoming), std::move(made));
    };
    const storage::result<void> written = co_await run_on(with.workers, write);
    if (!written) co_return error_response(incoming, public_fault(incoming, written.error()));
    co_return json_response(std::move(body));
}

}  // namespace

net::awaitable<reply> post_conversations(const services& with, const request& incoming,
                                         client_link&) {
    auto parse = [&] {
        // The SDKs send no body where nothing is to be said.
        const bool is_empty = incoming.body.empty();
        return responses::parse_conversation(is_empty ? "{}" : incoming.body,
                                             response_limits_of(with));
    };
    auto parsed = co_await run_on(with.workers, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    protocol::id_maker ids(random_bits);
    auto made = responses::new_conversation(ids.make("conv_"), seconds_now(), *parsed, ids);
    std::string body = responses::conversation_body(made);
    co_return co_await keep(with, incoming, std::move(made), std::move(body));
}

response get_conversation(const services& with, const request& incoming) {
    const kept one = find(with, incoming, incoming.parameter);
    if (!one) return not_found(incoming, incoming.parameter);
    return json_response(responses::conversation_body(*one));
}

net::awaitable<reply> post_conversation(const services& with, const request& incoming,
                                        client_link&) {
    auto metadata = responses::parse_metadata(incoming.body, response_limits_of(with));
    if (!metadata) co_return error_response(incoming, metadata.error());
    const auto held = hold_conversation(with, incoming, incoming.parameter);
    if (!held) co_return error_response(incoming, held.error());
    const kept one = find(with, incoming, incoming.parameter);
    if (!one) co_return not_found(incoming, incoming.parameter);
    auto made = responses::with_metadata(*one, *metadata);
    std::string body = responses::conversation_body(made);
    co_return co_await keep(with, incoming, std::move(made), std::move(body));
}

net::awaitable<reply> delete_conversation(const services& with, const request& incoming,
                                          client_link&) {
    auto drop = [&] {
        return drop_conversation(with.responses.conversations, *incoming.engine,
                                 tenant_of(incoming), incoming.parameter);
    };
    const storage::result<bool> dropped = co_await run_on(with.workers, drop);
    if (!dropped) co_return error_response(incoming, public_fault(incoming, dropped.error()));
    if (!*dropped) co_return not_found(incoming, incoming.parameter);
    co_return json_response(responses::deleted_conversation_body(incoming.parameter));
}

net::awaitable<reply> post_conversation_items(const services& with, const request& incoming,
                                              client_link&) {
    auto parse = [&] { return responses::parse_items(incoming.body, response_limits_of(with)); };
    auto items = co_await run_on(with.workers, parse);
    if (!items) co_return error_response(incoming, items.error());
    const auto held = hold_conversation(with, incoming, incoming.parameter);
    if (!held) co_return error_response(incoming, held.error());
    const kept one = find(with, incoming, incoming.parameter);
    if (!one) co_return not_found(incoming, incoming.parameter);
    protocol::id_maker ids(random_bits);
    boost::json::array added;
    auto extend = [&] { return responses::with_items(*one, *items, ids, added); };
    auto made = co_await run_on(with.workers, extend);
    if (!made) co_return error_response(incoming, made.error());
    co_return co_await keep(with, incoming, std::move(*made), responses::added_body(added));
}

net::awaitable<reply> get_conversation_items(const services& with, const request& incoming,
                                             client_link&) {
    const kept one = find(with, incoming, incoming.parameter);
    if (!one) co_return not_found(incoming, incoming.parameter);
    const auto page = responses::parse_item_page(incoming.query("limit"), incoming.query("order"),
                                                 incoming.query("after"));
    if (!page) co_return error_response(incoming, page.error());
    auto list = [&] { return responses::input_items_body(*one, *page); };
    auto body = co_await run_on(with.workers, list);
    if (!body) co_return error_response(incoming, body.error());
    co_return json_response(std::move(*body));
}

response get_conversation_item(const services& with, const request& incoming) {
    const std::string id = conversation_in_path(incoming);
    const kept one = find(with, incoming, id);
    if (!one) return not_found(incoming, id);
    auto body = responses::item_body(*one, incoming.parameter);
    return body ? json_response(std::move(*body)) : error_response(incoming, body.error());
}

net::awaitable<reply> delete_conversation_item(const services& with, const request& incoming,
                                               client_link&) {
    const std::string id = conversation_in_path(incoming);
    const auto held = hold_conversation(with, incoming, id);
    if (!held) co_return error_response(incoming, held.error());
    const kept one = find(with, incoming, id);
    if (!one) co_return not_found(incoming, id);
    auto made = responses::without_item(*one, incoming.parameter);
    if (!made) co_return error_response(incoming, made.error());
    std::string body = responses::conversation_body(*made);
    co_return co_await keep(with, incoming, std::move(*made), std::move(body));
}

}  // namespace semantic::server

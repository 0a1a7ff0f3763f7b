// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/responses/asking.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <memory>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "server/responses/response_keeper.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;
namespace responses = protocol::responses;

// The prefix that distinguishes conversations from messages of threads in `services::turns`.
constexpr const char* conversation_head = "conversation:";

/// Looks up the responses, conversations and items that a request refers to.
class lookup {
  public:
    lookup(const services& server, const storage::tenant_id& tenant, const own_lookup& own,
           storage::work_budget& budget)
        : server_(server), tenant_(tenant), own_(own), budget_(budget), finder_(&budget) {}

    /// Gives the items up to response `id` to `read`.
    protocol::result<void> before(const std::string& id, const responses::item_reader& read) const {
        if (own_)
            if (const auto chain = own_(id)) return hand_over(*chain, read);
        auto chain = server_.responses.stored.chain(tenant_, id);
        if (!chain) return chain.error();
        if (auto ended = responses::check_has_ended(*chain->back()); !ended) return ended.error();
        return hand_over(*chain, read);
    }
    protocol::result<void> conversation(const std::string& id,
                                        const responses::item_reader& read) const {
        auto kept = server_.responses.conversations.find(tenant_, id);
        if (!kept) return responses::conversation_not_found(id);
        return responses::read_items(*kept, read, &budget_);
    }
    const json::value* item(const std::string& id) {
        const auto kept = server_.responses.stored.find_item(tenant_, id);
        return kept ? finder_.find(*kept, id) : nullptr;
    }

    /// The body of a stored response; nothing where there is none.
    std::optional<json::object> response(const std::string& id) const {
        const auto kept = server_.responses.stored.find(tenant_, id);
        if (!kept) return std::nullopt;
        budget_.charge_bytes(kept->body.size());
        auto body = protocol::parse_json(kept->body, protocol::json_limits{});
        if (!body || !body->is_object()) return std::nullopt;
        return std::move(body->get_object());
    }

  private:
    /// Gives all items of these responses to `read`.
    protocol::result<void> hand_over(const std::vector<kept_responses::kept>& chain,
                                     const responses::item_reader& read) const {
        for (const auto& each : chain)
            if (auto done = responses::read_items(*each, read, &budget_); !done) return done;
        return {};
    }

    const services& server_;
    const storage::tenant_id tenant_;
    const own_lookup& own_;
    storage::work_budget& budget_;
    responses::item_finder finder_;
};

/// Adds the input and output of a response to its conversation. One that was deleted meanwhile is
/// no error.
storage::result<void> extend(const services& server, const request& incoming,
                             const kept_question& question, const json::object& response) {
    const auto add = [&](const responses::kept_response& now) {
        responses::kept_response made = now;
        made.input = responses::joined_items(std::move(made.input), question.input);
        made.input =
            responses::joined_items(std::move(made.input), responses::said_items_text(response));
        return protocol::result<responses::kept_response>(std::move(made));
    };
    const auto changed = change_conversation(server.responses.conversations, *incoming.engine,
                                             tenant_of(incoming), question.conversation, add);
    if (changed || changed.error().code == protocol::errc::not_found) return {};
    return storage::failure{storage::errc::io, changed.error().message};
}

}  // namespace

responses::response_limits response_limits_of(const services& server) {
    responses::response_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    return limits;
}

std::int64_t seconds_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

net::awaitable<protocol::result<responses::response_request>> parse_asked(
    const services& server, const request& incoming, const own_lookup& own,
    std::optional<std::string> summary) {
    const auto budget = std::make_shared<storage::work_budget>(storage::work_budget::limits{
        .bytes = server.limits.request_bytes_max, .deadline = answer_deadline(server)});
    lookup known(server, tenant_of(incoming), own, *budget);
    protocol::id_maker ids(random_bits);
    responses::kept_sources kept;
    kept.before = [&](const std::string& id, const responses::item_reader& read) {
        return known.before(id, read);
    };
    kept.in_conversation = [&](const std::string& id, const responses::item_reader& read) {
        return known.conversation(id, read);
    };
    kept.item_of = [&](const std::string& id) { return known.item(id); };
    kept.response_of = [&](const std::string& id) { return known.response(id); };
    kept.budget = budget.get();
    kept.ids = &ids;
    kept.summary = std::move(summary);
    responses::response_limits limits = response_limits_of(server);
    limits.bytes_per_token_max = incoming.engine->info().bytes_per_token_max;
    limits.context_tokens_max = incoming.engine->info().context_tokens_max;
    auto read = [&] { return responses::parse_response(incoming.body, limits, kept); };
    const auto says = [&](const char* word) {
        return incoming.body.find(word) != std::string::npos;
    };
    // Parsing is long, too, where the body refers to kept items.
    const bool is_long = incoming.body.size() > parse_here_bytes_max ||
                         says("previous_response_id") || says("item_reference") ||
                         says("conversation") || says("comparison_response_id");
    const auto finish = [&](protocol::result<responses::response_request> parsed) {
        const bool is_needed = parsed && parsed->compacts_above;
        if (incoming.drop_body && !is_needed) incoming.drop_body();
        if (parsed) parsed->budget = budget;
        return parsed;
    };
    if (!is_long) co_return finish(read());
    auto parsed = co_await run_on(choose_workers(server, incoming, job_length::long_job), read,
                                  incoming.gone);
    co_return finish(std::move(parsed));
}

net::awaitable<protocol::result<std::shared_ptr<const void>>> take_reply_share(
    const services& server, std::size_t bytes) {
    auto share = std::make_shared<body_budget::share>(server.replies);
    // A connection that takes nothing is closed after the time for a write, which then frees its
    // share for those who wait here.
    const auto patience = 2 * server.limits.write;
    // A reply is in memory twice: as a body and as the bytes that are sent.
    const bool has_room =
        co_await share->grow_to(2 * bytes, std::chrono::steady_clock::now() + patience);
    if (!has_room)
        co_return protocol::fail(protocol::errc::overloaded,
                                 "too many long replies wait for clients that read slowly");
    co_return std::shared_ptr<const void>(std::move(share));
}

responses::reply_options reply_options_of(responses::response_request& parsed, std::string id) {
    responses::reply_options options;
    options.response_id = std::move(id);
    options.model = parsed.model;
    options.created_unix = seconds_now();
    options.repeated = std::move(parsed.repeated);
    options.text_tools = std::move(parsed.text_tools);
    options.names = std::move(parsed.names);
    options.searches_tools = parsed.searches_tools;
    options.compared = std::move(parsed.compared);
    options.left_out = std::move(parsed.left_out);
    options.seals_reasoning = parsed.seals_reasoning;
    options.tool_calls_max = parsed.tool_calls_max;
    options.in_background = parsed.in_background;
    options.is_answer = parsed.generates;
    options.compacts = parsed.compacts && parsed.generates;
    if (!parsed.conversation.empty())
        options.conversation = json::object{{"id", parsed.conversation}};
    return options;
}

storage::result<void> keep_present_state(const services& server, const request& incoming,
                                         const kept_question& question,
                                         const json::object& response,
                                         const std::function<bool()>& is_dropped) {
    if (question.is_kept) {
        responses::kept_response made;
        made.id = std::string(response.at("id").as_string());
        made.previous = question.previous;
        made.created_unix = response.at("created_at").as_int64();
        made.input = question.input;
        made.body = protocol::to_text(response);
        auto kept = keep_response(server.responses.stored, *incoming.engine, tenant_of(incoming),
                                  std::move(made), is_dropped);
        if (!kept) return kept;
    }
    const json::value& status = response.at("status");
    const bool has_said = status == "completed" || status == "incomplete";
    if (question.conversation.empty() || !has_said) return {};
    return extend(server, incoming, question, response);
}

protocol::result<std::optional<turns_in_flight::turn>> hold_conversation(const services& server,
                                                                         const request& incoming,
                                                                         const std::string& id) {
    std::optional<turns_in_flight::turn> held;
    if (id.empty()) return held;
    auto turn = server.turns.begin(tenant_of(incoming), conversation_head + id);
    if (!turn) {
        protocol::failure f =
            protocol::fail(protocol::errc::conflict, "Conversation " + protocol::quoted(id) +
                                                         " is being added to by another request.");
        f.error_code = "conversation_locked";
        return f;
    }
    held.emplace(std::move(*turn));
    return held;
}

}  // namespace semantic::server

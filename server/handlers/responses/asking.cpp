#include "server/handlers/responses/asking.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <map>
#include <set>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "server/responses/response_keeper.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;
namespace responses = protocol::responses;

// Of the names under which conversations are held, beside threads' answers.
constexpr const char* conversation_head = "conversation:";

/// Looks up what a request refers to. Each response is read once, however many of its items are.
class lookup {
  public:
    lookup(const services& with, const storage::tenant_id& tenant, const own_lookup& own)
        : with_(with), tenant_(tenant), own_(own) {}

    protocol::result<json::array> before(const std::string& id) const {
        if (own_)
            if (auto items = own_(id)) return std::move(*items);
        auto chain = with_.responses.stored.chain(tenant_, id);
        if (!chain) return chain.error();
        if (auto ended = responses::check_has_ended(*chain->back()); !ended) return ended.error();
        return responses::items_of(*chain);
    }
    protocol::result<json::array> conversation(const std::string& id) const {
        auto kept = with_.responses.conversations.find(tenant_, id);
        if (!kept) return responses::conversation_not_found(id);
        return responses::items_of(std::span(&kept, 1));
    }
    json::value item(const std::string& id) {
        const auto kept = with_.responses.stored.find_item(tenant_, id);
        if (!kept) return nullptr;
        if (was_read_.insert(kept->id).second) items_.merge(responses::items_by_id(*kept));
        const auto found = items_.find(id);
        return found == items_.end() ? json::value() : found->second;
    }

  private:
    const services& with_;
    const storage::tenant_id tenant_;
    const own_lookup& own_;
    std::map<std::string, json::value> items_;
    std::set<std::string> was_read_;
};

/// The conversation with these items more. Not found: it was deleted in the meantime.
storage::result<void> extend(const services& with, const request& incoming, const std::string& id,
                             json::array asked, const json::object& response) {
    const storage::tenant_id tenant = tenant_of(incoming);
    const auto before = with.responses.conversations.find(tenant, id);
    if (!before) return {};
    responses::kept_response made = *before;
    auto items = responses::items_of(std::span(&before, 1));
    if (!items) return storage::failure{storage::errc::bad_value, items.error().what};
    for (json::value& each : asked) items->push_back(std::move(each));
    for (const json::value& each : response.at("output").as_array()) items->push_back(each);
    made.input = protocol::to_text(*items);
    return keep_conversation(with.responses.conversations, *incoming.engine, tenant,
                             std::move(made));
}

}  // namespace

responses::response_limits response_limits_of(const services& with) {
    responses::response_limits limits;
    limits.json.bytes_max = with.limits.body_bytes_max;
    return limits;
}

std::int64_t seconds_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

net::awaitable<protocol::result<responses::response_request>> parse_asked(const services& with,
                                                                          const request& incoming,
                                                                          const own_lookup& own) {
    lookup known(with, tenant_of(incoming), own);
    auto read = [&] {
        return responses::parse_response(
            incoming.body, response_limits_of(with),
            [&](const std::string& id) { return known.before(id); },
            [&](const std::string& id) { return known.item(id); },
            [&](const std::string& id) { return known.conversation(id); });
    };
    const auto says = [&](const char* word) {
        return incoming.body.find(word) != std::string::npos;
    };
    // What is referred to may be long.
    if (says("previous_response_id") || says("item_reference") || says("conversation"))
        co_return co_await run_on(with.workers, read);
    co_return co_await parse_body(with, incoming, read);
}

responses::reply_options reply_options_of(responses::response_request& parsed, std::string id) {
    responses::reply_options options;
    options.response_id = std::move(id);
    options.model = parsed.model;
    options.created_unix = seconds_now();
    options.repeated = std::move(parsed.repeated);
    options.text_tools = std::move(parsed.text_tools);
    options.left_out = std::move(parsed.left_out);
    options.seals_reasoning = parsed.seals_reasoning;
    options.tool_calls_max = parsed.tool_calls_max;
    options.in_background = parsed.in_background;
    options.is_answer = parsed.generates;
    if (!parsed.conversation.empty())
        options.conversation = json::object{{"id", parsed.conversation}};
    return options;
}

storage::result<void> keep_as_it_stands(const services& with, const request& incoming,
                                        const kept_question& question,
                                        const json::object& response) {
    protocol::id_maker ids(random_bits);
    json::array asked = responses::named_items(question.input, ids);
    if (question.is_kept) {
        responses::kept_response made;
        made.id = std::string(response.at("id").as_string());
        made.previous = question.previous;
        made.created_unix = response.at("created_at").as_int64();
        made.input = protocol::to_text(asked);
        made.body = protocol::to_text(response);
        auto kept = keep_response(with.responses.stored, *incoming.engine, tenant_of(incoming),
                                  std::move(made));
        if (!kept) return kept;
    }
    const json::value& status = response.at("status");
    const bool has_said = status == "completed" || status == "incomplete";
    if (question.conversation.empty() || !has_said) return {};
    return extend(with, incoming, question.conversation, std::move(asked), response);
}

protocol::result<std::optional<turns_in_flight::turn>> hold_conversation(const services& with,
                                                                         const request& incoming,
                                                                         const std::string& id) {
    std::optional<turns_in_flight::turn> held;
    if (id.empty()) return held;
    auto turn = with.turns.begin(tenant_of(incoming), conversation_head + id);
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

// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/responses/compaction.hpp"

#include <boost/json.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "protocol/history/summary.hpp"
#include "protocol/responses/compaction.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/work_limit.hpp"
#include "server/handlers/responses/asking.hpp"

namespace semantic::server {

namespace {

namespace responses = protocol::responses;
using reply = std::optional<response>;

/// The user's messages in the conversation and in the request itself. Errors: the work budget is
/// used up.
protocol::result<boost::json::array> users_messages(const services& server, const request& incoming,
                                                    const responses::response_request& parsed) {
    boost::json::array messages;
    const responses::item_reader read = [&](const boost::json::value& item) {
        if (!responses::is_users_message(item)) return;
        parsed.budget->charge_bytes(responses::memory_of(item));
        messages.push_back(item);
    };
    const storage::tenant_id tenant = tenant_of(incoming);
    std::vector<kept_responses::kept> before;
    if (auto chain = server.responses.stored.chain(tenant, parsed.previous))
        before = std::move(*chain);
    if (auto kept = server.responses.conversations.find(tenant, parsed.conversation))
        // A request continues a response or a conversation, never both.
        before = {std::move(kept)};
    responses::kept_response own;
    own.input = parsed.input;
    own.body = R"({"output":[]})";
    before.push_back(std::make_shared<const responses::kept_response>(std::move(own)));
    try {
        for (const auto& each : before)
            if (auto done = responses::read_items(*each, read, parsed.budget.get()); !done)
                return done.error();
    } catch (const storage::work_limit_exceeded& reached) {
        return protocol::from_work_limit(reached);
    }
    return messages;
}

/// Frees the request's body at its end.
class body_drop {
  public:
    explicit body_drop(const request& incoming) : incoming_(incoming) {}
    ~body_drop() {
        if (incoming_.drop_body) incoming_.drop_body();
    }
    body_drop(const body_drop&) = delete;
    body_drop& operator=(const body_drop&) = delete;

  private:
    const request& incoming_;
};

/// Whether the prompt has more than `limit` tokens. False where it cannot be counted.
net::awaitable<bool> is_above(const answer_context& asked,
                              const responses::response_request& parsed, int limit) {
    auto count = [&] { return asked.incoming.engine->count_tokens(parsed.chat, parsed.thinking); };
    const auto tokens =
        co_await run_on(choose_workers(asked.server, asked.incoming, job_length::large_job), count);
    if (!tokens) co_return false;
    co_return *tokens > limit;
}

}  // namespace

net::awaitable<std::string> compact_when_due(const answer_context& asked, const own_lookup& own,
                                             responses::response_request& parsed) {
    if (!parsed.compacts_above) co_return std::string();
    const body_drop at_end(asked.incoming);
    const bool is_due =
        parsed.generates && co_await is_above(asked, parsed, *parsed.compacts_above);
    if (!is_due) co_return std::string();
    responses::response_request about = parsed;
    protocol::ask_for_summary(about, protocol::summary_question());
    // No agent: the summary reads the shared beginning of a memory, and writes none.
    auto wanted = about.take_generation(std::nullopt, answer_deadline(asked.server));
    protocol::summary_collector collector;
    const reply made = co_await collect_answer(asked, std::move(wanted), collector);
    if (!made || made->status != 200) co_return std::string();
    auto shorter = co_await parse_asked(asked.server, asked.incoming, own, collector.summary());
    if (!shorter) co_return std::string();
    parsed.chat = std::move(shorter->chat);
    co_return collector.summary();
}

net::awaitable<reply> post_input_tokens(const services& parts, const request& incoming,
                                        client_link&) {
    auto parsed = co_await parse_asked(parts, incoming);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(parts, incoming, parsed->model)) co_return refused;
    auto count = [&]() -> protocol::result<int> {
        const auto tokens = incoming.engine->count_tokens(parsed->chat, parsed->thinking);
        if (!tokens) return public_fault(incoming, tokens.error());
        return *tokens;
    };
    const auto tokens = co_await run_on(choose_workers(parts, incoming, job_length::large_job),
                                        count, incoming.gone);
    if (!tokens) co_return error_response(incoming, tokens.error());
    co_return json_response(responses::input_tokens_body(*tokens));
}

net::awaitable<reply> post_compact(const services& server, const request& incoming,
                                   client_link& client) {
    running_answer counted(server.probe);
    auto parsed = co_await parse_asked(server, incoming);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(server, incoming, parsed->model)) co_return refused;

    auto gather = [&] { return users_messages(server, incoming, *parsed); };
    auto messages =
        co_await run_on(choose_workers(server, incoming, job_length::large_job), gather);
    if (!messages) co_return error_response(incoming, messages.error());
    protocol::id_maker ids(random_bits);
    protocol::ask_for_summary(*parsed, protocol::summary_question());
    // No agent: the summary reads the shared beginning of a memory, and writes none.
    auto wanted = parsed->take_generation(std::nullopt, answer_deadline(server));
    responses::compaction_collector collector(ids.make("resp_"), seconds_now(),
                                              std::move(*messages), ids);
    answer_context asked{server, incoming, client};
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/dialects/anthropic.hpp"

#include <functional>
#include <utility>

#include "protocol/anthropic/message_stream.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/anthropic/summaries.hpp"
#include "protocol/history/summary.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/dialects/verdicts.hpp"

namespace semantic::server {

namespace {

namespace anthropic = protocol::anthropic;
using reply = std::optional<response>;

anthropic::messages_limits messages_limits_of(const services& server) {
    anthropic::messages_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    return limits;
}

/// Looks up the thread (a kept sequence of turns) that a request continues, while the request is
/// parsed.
class thread_lookup final : public anthropic::thread_reader {
  public:
    thread_lookup(const services& server, const request& incoming)
        : server_(server), engine_(*incoming.engine), tenant_(tenant_of(incoming)) {}

    const storage::tenant_id& tenant() const { return tenant_; }

    /// The tools of the thread at message `id`. Errors: there is no such thread, or its turn was
    /// continued already.
    protocol::result<engine::tool_lists> read_tools(const std::string& id) override {
        auto turn = engine_.find_thread(tenant_, id);
        if (!turn) return anthropic::thread_not_found(id);
        if (turn->is_continued)
            return refusal("was continued already; continue the answer after it",
                           "thread_already_continued");
        effort_ = std::move(turn->effort);
        return std::move(turn->tools);
    }

    /// Why the parsed request does not fit the thread: its effort differs, which the prompt begins
    /// with. Nothing: it fits.
    std::optional<protocol::failure> mismatch(const engine::thinking_params& wanted) const {
        const std::string effort = wanted.effort.value_or(engine::thread_turn::effort_unless_said);
        if (effort_.empty() || effort_ == effort) return std::nullopt;
        protocol::failure f = refusal("the thread was created with " + effort_ +
                                          ", which its prompt begins with; it is " + effort,
                                      "thread_fingerprint_mismatch");
        f.path = "output_config.effort";
        f.message = f.path + ": " + f.message;
        return f;
    }

    /// Takes the right to continue message `id`. Errors: another request has it.
    protocol::result<turns_in_flight::turn> begin(const std::string& id) const {
        auto turn = server_.turns.begin(tenant_, id);
        if (turn) return std::move(*turn);
        return refusal("another request continues " + id + " right now",
                       "thread_continue_in_flight");
    }

  private:
    static protocol::failure refusal(std::string message, std::string error_code) {
        protocol::failure f = protocol::fail(protocol::errc::bad_value, std::move(message));
        f.error_code = std::move(error_code);
        return f;
    }
    const services& server_;
    const engine::engine& engine_;  // which the request holds
    storage::tenant_id tenant_;
    std::string effort_;
};

/// Has the engine keep this turn, so that a thread can continue it. A thread without an agent
/// becomes an agent of its own.
void keep_thread(const anthropic::thread_fields& thread, const std::string& message_id,
                 engine::generation_request& wanted) {
    if (!thread.is_kept) return;
    wanted.keeps_thread = true;
    wanted.message_id = message_id;
    if (!thread.continues.empty()) {
        wanted.continues = thread.continues;
    } else if (!wanted.agent) {
        wanted.agent = *storage::agent_id::parse("thread_" + message_id);
    }
}

/// Counts the prompt tokens of a conversation. `continues`: the message of the thread that it
/// continues; empty: none.
protocol::result<int> count_prompt(const request& incoming, const storage::tenant_id& tenant,
                                   const engine::conversation& chat,
                                   const engine::thinking_params& thinking,
                                   const std::string& continues) {
    const auto as_result = [&](const storage::result<int>& tokens) -> protocol::result<int> {
        if (!tokens) return public_fault(incoming, tokens.error());
        return *tokens;
    };
    if (continues.empty()) return as_result(incoming.engine->count_tokens(chat, thinking));
    engine::generation_request continued;
    continued.tenant = tenant;
    continued.chat = chat;
    continued.thinking = thinking;
    continued.continues = continues;
    return as_result(incoming.engine->count_continued(continued));
}

/// Counts the prompt of an edited conversation, with the request's thinking.
class edit_counter final : public anthropic::prompt_counter {
  public:
    edit_counter(const request& incoming, const engine::thinking_params& thinking)
        : incoming_(incoming), thinking_(thinking) {}

    protocol::result<int> count_tokens(const engine::conversation& chat) const override {
        // No tenant is needed, since no thread is looked up.
        return count_prompt(incoming_, {}, chat, thinking_, {});
    }

  private:
    const request& incoming_;
    const engine::thinking_params& thinking_;
};

/// Applies a request's context edits to the conversation in its body. The earlier turns of a thread
/// are in the agent's memory and are not edited.
protocol::result<anthropic::edited_context> edit_context(const request& incoming,
                                                         const anthropic::context_edits& edits,
                                                         const engine::thinking_params& thinking,
                                                         engine::conversation& chat) {
    const edit_counter counter(incoming, thinking);
    return anthropic::apply_context_edits(edits, chat, counter);
}

bool has_tools(const engine::conversation& chat) {
    return !chat.tools.empty() || !chat.deferred_tools.empty();
}

/// Has the model summarise the request's conversation on a branch of its memory. Returns: a
/// refusal; or nothing, and then `summary` has the text, or no value where the client has left.
net::awaitable<reply> make_summary(const answer_context& asked,
                                   const anthropic::messages_request& parsed,
                                   const std::string& question,
                                   std::optional<std::string>& summary) {
    anthropic::messages_request about = parsed;
    protocol::ask_for_summary(about, question);
    auto wanted = about.take_generation(std::nullopt, answer_deadline(asked.server));
    protocol::summary_collector collector;
    reply made = co_await collect_answer(asked, std::move(wanted), collector);
    if (!made || made->status != 200) co_return made;
    summary = collector.summary();
    co_return std::nullopt;
}

/// The options that the request alone decides; edits, summary and judging are added later.
anthropic::reply_options options_of(const anthropic::messages_request& parsed,
                                    const request& incoming, std::string message_id) {
    anthropic::reply_options options;
    options.message_id = std::move(message_id);
    options.request_id = incoming.id;
    options.model = parsed.model;
    options.tool_calls_max = parsed.tool_calls_max;
    options.shows_thinking = parsed.shows_thinking;
    options.hides_thinking = parsed.hides_thinking;
    options.diagnoses = parsed.diagnoses;
    options.previous_message_id = parsed.previous_message_id;
    options.left_out = parsed.left_out;
    options.compacts = parsed.compacts;
    options.tool_changes = parsed.tool_changes;
    return options;
}

/// What came of a request's context edits. `refusal`: the reply that ends the request; empty: none.
/// `is_gone`: the client has left. `applied`: the edits for the reply. `summary_block`: the block
/// that replaces the summarised part; empty: none.
struct edit_outcome {
    reply refusal{};
    bool is_gone = false;
    std::optional<boost::json::array> applied{};
    boost::json::object summary_block{};
};

/// Applies the context edits of a request to `parsed`; where they ask for a summary, has it made
/// and parses the rest of the body after it.
net::awaitable<edit_outcome> apply_edits(const answer_context& asked,
                                         anthropic::messages_request& parsed) {
    edit_outcome outcome;
    if (!parsed.edits.is_asked) co_return outcome;
    // An empty list in the reply says that the edits were looked at.
    outcome.applied.emplace();
    if (parsed.edits.list.empty() || parsed.compacts || !parsed.thread.continues.empty())
        co_return outcome;
    const request& incoming = asked.incoming;
    auto edit = [&] { return edit_context(incoming, parsed.edits, parsed.thinking, parsed.chat); };
    auto edited = co_await run_on(choose_workers(asked.server, incoming, job_length::long_job),
                                  edit, incoming.gone);
    if (!edited) {
        outcome.refusal = error_response(incoming, edited.error());
        co_return outcome;
    }
    outcome.applied = std::move(edited->applied);
    if (edited->summary == nullptr) co_return outcome;
    const std::string question = edited->summary->instructions.empty()
                                     ? std::string(protocol::summary_question())
                                     : edited->summary->instructions;
    // The client wants the summary itself as the answer.
    if (edited->summary->pauses) {
        protocol::ask_for_summary(parsed, question);
        parsed.compacts = true;
        co_return outcome;
    }
    std::optional<std::string> summary;
    outcome.refusal = co_await make_summary(asked, parsed, question, summary);
    outcome.is_gone = !outcome.refusal && !summary;
    if (!summary) co_return outcome;
    outcome.summary_block = anthropic::compaction_block(*summary, std::move(parsed.tool_changes));
    auto read_on = [&] {
        return anthropic::parse_messages(
            anthropic::body_behind_summary(parsed.rest_of_body, outcome.summary_block),
            messages_limits_of(asked.server));
    };
    auto next = co_await run_on(choose_workers(asked.server, incoming), read_on, incoming.gone);
    if (next)
        parsed = std::move(*next);
    else
        outcome.refusal = error_response(incoming, next.error());
    co_return outcome;
}

}  // namespace

net::awaitable<reply> post_messages(const services& server, const request& incoming,
                                    client_link& client) {
    running_answer counted(server.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parent = parent_of_headers(incoming);
    if (!parent) co_return error_response(incoming, parent.error());
    thread_lookup thread(server, incoming);
    auto parse = [&] {
        return anthropic::parse_messages(incoming.body, messages_limits_of(server), &thread);
    };
    auto parsed = co_await parse_body(server, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(server, incoming, parsed->model)) co_return refused;
    if (auto refused = thread.mismatch(parsed->thinking))
        co_return error_response(incoming, *refused);
    std::optional<turns_in_flight::turn> turn;
    if (!parsed->thread.continues.empty()) {
        auto begun = thread.begin(parsed->thread.continues);
        if (!begun) co_return error_response(incoming, begun.error());
        turn.emplace(std::move(*begun));
    }

    protocol::id_maker ids(random_bits);
    answer_context asked{server, incoming, client};
    const bool is_side = protocol::is_side_request(identity_of(incoming), has_tools(parsed->chat));
    edit_outcome edited = co_await apply_edits(asked, *parsed);
    if (edited.refusal || edited.is_gone) co_return std::move(edited.refusal);
    anthropic::reply_options options = options_of(*parsed, incoming, ids.message_id());
    options.applied_edits = std::move(edited.applied);
    options.summary_block = std::move(edited.summary_block);
    std::optional<verdicts> judge;
    if (parsed->safeguards && server.settings.safeguards.count() > 0) {
        options.is_judged = true;
        judge.emplace(asked, *parsed->safeguards, parsed->chat);
    } else if (parsed->safeguards) {
        options.safeguard_results = anthropic::unsupported_safeguards();
    }
    // A request for a summary must not change the agent's memory, so it has no agent.
    if (is_side || parsed->compacts) *agent = std::nullopt;
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(server));
    wanted.agent_may_branch = true;
    wanted.parent = std::move(*parent);
    if (!options.compacts) wanted.message_id = options.message_id;
    if (!options.compacts) keep_thread(parsed->thread, options.message_id, wanted);
    if (parsed->stream) {
        anthropic::message_stream stream(std::move(options), ids);
        if (judge) asked.at_end = judge->watch(stream);
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    anthropic::message_collector collector(std::move(options), ids);
    if (judge) asked.at_end = judge->watch(collector);
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

net::awaitable<reply> post_count_tokens(const services& server, const request& incoming,
                                        client_link&) {
    thread_lookup thread(server, incoming);
    auto parse = [&] {
        return anthropic::parse_count_tokens(incoming.body, messages_limits_of(server), &thread);
    };
    // Long bodies of a tenant run one after the other, because parsing takes several times their
    // size in memory.
    const job_length length =
        incoming.body.size() > parse_here_bytes_max ? job_length::large_job : job_length::by_body;
    auto count = [&]() -> protocol::result<std::string> {
        auto parsed = parse();
        if (!parsed) return parsed.error();
        if (auto refused = thread.mismatch(parsed->thinking)) return *refused;
        const std::string& continues = parsed->thread.continues;
        int original = 0;
        if (parsed->edits.is_asked && continues.empty()) {
            const auto edited =
                edit_context(incoming, parsed->edits, parsed->thinking, parsed->chat);
            if (!edited) return edited.error();
            original = edited->original_tokens;
        }
        const auto tokens =
            count_prompt(incoming, thread.tenant(), parsed->chat, parsed->thinking, continues);
        if (!tokens) return tokens.error();
        // Nothing was edited, as in a thread: the prompt is the original one.
        if (parsed->edits.is_asked && original == 0) original = *tokens;
        return anthropic::count_tokens_body(*tokens, original);
    };
    auto counted = co_await run_on(choose_workers(server, incoming, length), count, incoming.gone);
    if (incoming.drop_body) incoming.drop_body();
    if (!counted) co_return error_response(incoming, counted.error());
    co_return json_response(std::move(*counted));
}

response get_hello(const services&, const request&) { return json_response("{}"); }

response post_event_logging(const services&, const request&) {
    return json_response(R"({"status":"ok"})");
}

}  // namespace semantic::server

#include "server/handlers/dialects/anthropic.hpp"

#include "protocol/anthropic/message_stream.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/answer/answer.hpp"

namespace semantic::server {

namespace {

namespace anthropic = protocol::anthropic;
using reply = std::optional<response>;

anthropic::messages_limits limits_of(const services& with) {
    anthropic::messages_limits limits;
    limits.json.bytes_max = with.limits.body_bytes_max;
    return limits;
}

/// The thread that a request continues, as it is looked up while the request is parsed.
class thread_lookup {
  public:
    thread_lookup(const services& with, const request& incoming)
        : with_(with), engine_(*incoming.engine), tenant_(tenant_of(incoming)) {}

    const storage::tenant_id& tenant() const { return tenant_; }

    protocol::result<std::vector<engine::tool_definition>> tools_of(const std::string& id) {
        auto turn = engine_.find_thread(tenant_, id);
        if (!turn) return anthropic::thread_not_found(id);
        if (turn->is_continued)
            return refusal("was continued already; continue the answer behind it",
                           "thread_already_continued");
        effort_ = std::move(turn->effort);
        return std::move(turn->tools);
    }

    /// Why the request, which is parsed now, cannot go on in the thread.
    std::optional<protocol::failure> mismatch(const engine::thinking_params& wanted) const {
        const std::string effort = wanted.effort.value_or(engine::thread_turn::effort_unless_said);
        if (effort_.empty() || effort_ == effort) return std::nullopt;
        protocol::failure f = refusal("the thread was created with " + effort_ +
                                          ", which its prompt begins with; it is " + effort,
                                      "thread_fingerprint_mismatch");
        f.path = "output_config.effort";
        f.what = f.path + ": " + f.what;
        return f;
    }

    /// The turn of `id`, or why there is none.
    protocol::result<turns_in_flight::turn> begin(const std::string& id) const {
        auto turn = with_.turns.begin(tenant_, id);
        if (turn) return std::move(*turn);
        return refusal("another request continues " + id + " right now",
                       "thread_continue_in_flight");
    }

  private:
    static protocol::failure refusal(std::string what, std::string error_code) {
        protocol::failure f = protocol::fail(protocol::errc::bad_value, std::move(what));
        f.error_code = std::move(error_code);
        return f;
    }
    const services& with_;
    const engine::engine& engine_;  // which the request holds
    storage::tenant_id tenant_;
    std::string effort_;
};

/// What the engine is to remember of a request in a thread. A thread that nobody names is an agent
/// of its own.
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

storage::result<int> count_prompt(const engine::engine& engine, const storage::tenant_id& tenant,
                                  const anthropic::count_tokens_request& parsed) {
    if (parsed.thread.continues.empty()) return engine.count_tokens(parsed.chat, parsed.thinking);
    engine::generation_request continued;
    continued.tenant = tenant;
    continued.chat = parsed.chat;
    continued.thinking = parsed.thinking;
    continued.continues = parsed.thread.continues;
    return engine.count_continued(continued);
}

}  // namespace

net::awaitable<reply> post_messages(const services& with, const request& incoming,
                                    client_link& client) {
    running_answer counted(with.probe);
    auto agent = agent_of_headers(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto parent = parent_of_headers(incoming);
    if (!parent) co_return error_response(incoming, parent.error());
    thread_lookup thread(with, incoming);
    auto parse = [&] {
        return anthropic::parse_messages(
            incoming.body, limits_of(with),
            [&thread](const std::string& id) { return thread.tools_of(id); });
    };
    auto parsed = co_await parse_body(with, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (auto refused = refuse_other_model(with, incoming, parsed->model)) co_return refused;
    if (auto refused = thread.mismatch(parsed->thinking))
        co_return error_response(incoming, *refused);
    std::optional<turns_in_flight::turn> turn;
    if (!parsed->thread.continues.empty()) {
        auto begun = thread.begin(parsed->thread.continues);
        if (!begun) co_return error_response(incoming, begun.error());
        turn.emplace(std::move(*begun));
    }

    protocol::id_maker ids(random_bits);
    anthropic::reply_options options{ids.message_id(),       incoming.id,
                                     parsed->model,          parsed->tool_calls_max,
                                     parsed->shows_thinking, parsed->hides_thinking,
                                     parsed->diagnoses,      parsed->previous_message_id,
                                     parsed->left_out};
    if (protocol::is_side_request(identity_of(incoming), !parsed->chat.tools.empty()))
        *agent = std::nullopt;
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(with));
    wanted.agent_may_branch = true;
    wanted.parent = std::move(*parent);
    keep_thread(parsed->thread, options.message_id, wanted);
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
    thread_lookup thread(with, incoming);
    auto parse = [&] {
        return anthropic::parse_count_tokens(
            incoming.body, limits_of(with),
            [&thread](const std::string& id) { return thread.tools_of(id); });
    };
    // Of a tenant's long ones one after the other: each may take as much memory as its body has
    // bytes, several times.
    const job_length length =
        incoming.body.size() > parse_here_bytes_max ? job_length::large_job : job_length::by_body;
    auto count = [&]() -> protocol::result<int> {
        const auto parsed = parse();
        if (!parsed) return parsed.error();
        if (auto refused = thread.mismatch(parsed->thinking)) return *refused;
        const auto tokens = count_prompt(*incoming.engine, thread.tenant(), *parsed);
        if (!tokens) return public_fault(incoming, tokens.error());
        return *tokens;
    };
    const auto tokens =
        co_await run_on(choose_workers(with, incoming, length), count, incoming.gone);
    if (incoming.drop_body) incoming.drop_body();
    if (!tokens) co_return error_response(incoming, tokens.error());
    co_return json_response(anthropic::count_tokens_body(*tokens));
}

response post_event_logging(const services&, const request&) {
    return json_response(R"({"status":"ok"})");
}

}  // namespace semantic::server

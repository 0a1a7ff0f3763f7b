#include "server/handlers/answer.hpp"

#include <algorithm>
#include <cstdio>

#include "engine/text/output_parser.hpp"
#include "protocol/models.hpp"
#include "server/http/sse_writer.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/token_stream.hpp"

namespace semantic::server {

namespace {

using protocol::errc;
using clock = std::chrono::steady_clock;
using reply = std::optional<response>;

/// What the log says about one answer; numbers and ids only.
class answer_log {
  public:
    answer_log(const request& to, const token_stream& events) : request_(to), events_(events) {}

    void on(const engine::admitted& event) {
        const engine::prompt_usage& usage = event.usage;
        line_ = "agent " + event.agent.str() + " prompt " + std::to_string(usage.prompt_tokens) +
                " reused " + std::to_string(usage.reused_tokens) + " (from disk " +
                std::to_string(usage.restored_tokens) + ") computed " +
                std::to_string(usage.created_tokens + usage.recomputed_tokens);
        if (usage.why != engine::miss_reason::none) {
            line_.append(" miss ").append(to_string(usage.why));
            if (!usage.detail.empty()) line_.append(" (").append(usage.detail).append(")");
        }
    }
    void on(const engine::finished& event) {
        line_ += " output " + std::to_string(event.output_tokens);
        if (auto waited = events_.first_token_after())
            line_ += " first token after " + in_milliseconds(*waited);
        line_.append(" stop ")
            .append(to_string(event.why))
            .append(event.saved ? " saved" : " not saved yet");
        log_event(log_level::info, request_.id, line_);
    }
    void on(const engine::failed& event) {
        log_event(event.kind == engine::failure_kind::internal ? log_level::error : log_level::info,
                  request_.id, (line_.empty() ? "refused: " : line_ + " failed: ") + event.what);
    }
    void client_gone() {
        log_event(log_level::info, request_.id, line_ + " client gone, cancelled");
    }

  private:
    static std::string in_milliseconds(clock::duration time) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f ms",
                      std::chrono::duration<double, std::milli>(time).count());
        return text;
    }
    const request& request_;
    const token_stream& events_;
    std::string line_;
};

/// How much was remembered, for clients that look at headers.
std::vector<std::pair<std::string, std::string>> cache_fields(const engine::admitted& event) {
    std::vector<std::pair<std::string, std::string>> fields{
        {"x-semantic-agent", event.agent.str()},
        {"x-semantic-prompt-tokens", std::to_string(event.usage.prompt_tokens)},
        {"x-semantic-reused-tokens", std::to_string(event.usage.reused_tokens)}};
    if (event.usage.why != engine::miss_reason::none)
        fields.emplace_back("x-semantic-miss-reason", to_string(event.usage.why));
    return fields;
}

/// The events of a request, which stop when the client leaves.
std::shared_ptr<token_stream> events_for(client_link& client) {
    auto events = std::make_shared<token_stream>(client.executor());
    client.when_gone([events] { events->interrupt(); });
    return events;
}

/// One answer in the making.
struct answer {
    answer(const answer_context& of, engine::generation_request wanted)
        : incoming(of.incoming),
          client(of.client),
          has_tools(!wanted.chat.tools.empty()),
          family(of.with.engines.get()->info().chat_template),
          deadline(wanted.deadline.value() + of.with.limits.engine_lateness),
          events(events_for(of.client)),
          generation(*of.with.engines.get(), std::move(wanted), events) {}

    const request& incoming;
    client_link& client;
    bool has_tools;
    std::string family;  // of the chat template, which says how the model writes calls
    clock::time_point deadline;
    std::shared_ptr<token_stream> events;
    running_request generation;
};

/// Parts the model's text into what is shown, what is called and what is thought.
class text_splitter {
  public:
    explicit text_splitter(const answer& of)
        : parser_(engine::make_output_parser(of.family, of.has_tools)) {}
    std::vector<engine::answer_piece> push(const std::string& text) { return parser_->push(text); }
    std::vector<engine::answer_piece> finish() { return parser_->finish(); }

  private:
    std::unique_ptr<engine::output_parser> parser_;
};

/// The answer as server-sent events.
class streamed_answer {
  public:
    streamed_answer(answer& of, protocol::reply_stream& as)
        : answer_(of),
          stream_(as),
          writer_(of.client, of.incoming),
          log_(of.incoming, *of.events) {}

    net::awaitable<reply> run() {
        while (!stream_.ended() && !refusal_) {
            clock::time_point until =
                std::min(last_write_ + answer_.client.ping_every(), answer_.deadline);
            auto batch = co_await answer_.events->next(until);
            if (answer_.client.is_gone()) break;
            std::string bytes;
            for (const engine::generation_event& event : batch) bytes += take(event);
            if (refusal_) break;
            if (batch.empty()) bytes = on_silence();
            if (bytes.empty()) continue;
            last_write_ = clock::now();
            if (!co_await writer_.write(bytes)) break;
        }
        if (refusal_) co_return std::move(refusal_);
        if (answer_.client.is_gone()) {
            log_.client_gone();
        } else {
            co_await writer_.finish();
        }
        co_return std::nullopt;
    }

  private:
    std::string take(const engine::generation_event& event) {
        return std::visit([this](const auto& one) { return on(one); }, event);
    }
    std::string on(const engine::admitted& event) {
        log_.on(event);
        if (!writer_.begun())
            for (auto& [name, value] : cache_fields(event)) writer_.add_field(name, value);
        return stream_.on_admitted(event);
    }
    std::string on(const engine::token_text& event) { return show(splitter_.push(event.text)); }
    std::string on(const engine::finished& event) {
        log_.on(event);
        answer_.generation.ended();
        std::string rest = show(splitter_.finish());
        return rest + stream_.on_finished(event);
    }
    std::string on(const engine::failed& event) {
        log_.on(event);
        answer_.generation.ended();
        protocol::failure failure = protocol::from_engine(event);
        if (!writer_.begun()) {
            refusal_ = error_response(
                answer_.incoming, failure);  // nothing is out yet: a plain error with its status
            return {};
        }
        return stream_.on_failed(failure);
    }
    std::string show(const std::vector<engine::answer_piece>& pieces) {
        std::string bytes;
        for (const auto& piece : pieces) {
            if (const auto* text = std::get_if<engine::answer_text>(&piece))
                bytes += stream_.on_text(text->text);
            if (const auto* thinking = std::get_if<engine::answer_thinking>(&piece))
                bytes += stream_.on_thinking(thinking->text);
            if (const auto* call = std::get_if<engine::answer_call>(&piece))
                bytes += stream_.on_tool_call(call->name, call->arguments_json);
        }
        return bytes;
    }
    std::string on_silence() {
        if (clock::now() < answer_.deadline) return stream_.ping();
        protocol::failure late{
            errc::timeout, "the answer took longer than the server allows", {}, {}};
        if (writer_.begun()) return stream_.on_failed(late);
        refusal_ = error_response(answer_.incoming, late);
        return {};
    }

    answer& answer_;
    protocol::reply_stream& stream_;
    sse_writer writer_;
    answer_log log_;
    text_splitter splitter_{answer_};
    clock::time_point last_write_ = clock::now();
    reply refusal_;
};

/// The answer as one body.
class collected_answer {
  public:
    collected_answer(answer& of, protocol::reply_collector& as)
        : answer_(of), collector_(as), log_(of.incoming, *of.events) {}

    net::awaitable<reply> run() {
        while (!reply_) {
            auto batch = co_await answer_.events->next(answer_.deadline);
            if (answer_.client.is_gone()) {
                log_.client_gone();
                co_return std::nullopt;
            }
            for (const engine::generation_event& event : batch)
                std::visit([this](const auto& one) { on(one); }, event);
            if (batch.empty())
                reply_ = error_response(
                    answer_.incoming,
                    {errc::timeout, "the answer took longer than the server allows", {}, {}});
        }
        co_return std::move(reply_);
    }

  private:
    void on(const engine::admitted& event) {
        log_.on(event);
        fields_ = cache_fields(event);
        collector_.on_admitted(event);
    }
    void on(const engine::token_text& event) { collect(splitter_.push(event.text)); }
    void on(const engine::finished& event) {
        log_.on(event);
        answer_.generation.ended();
        collect(splitter_.finish());
        protocol::result<std::string> body = collector_.on_finished(event);
        reply_ =
            body ? json_response(std::move(*body)) : error_response(answer_.incoming, body.error());
        for (auto& field : fields_) reply_->fields.push_back(std::move(field));
    }
    void on(const engine::failed& event) {
        log_.on(event);
        answer_.generation.ended();
        reply_ = error_response(answer_.incoming, protocol::from_engine(event));
    }

    void collect(const std::vector<engine::answer_piece>& pieces) {
        for (const auto& piece : pieces) {
            if (const auto* text = std::get_if<engine::answer_text>(&piece))
                collector_.on_text(text->text);
            if (const auto* thinking = std::get_if<engine::answer_thinking>(&piece))
                collector_.on_thinking(thinking->text);
            if (const auto* call = std::get_if<engine::answer_call>(&piece))
                collector_.on_tool_call(call->name, call->arguments_json);
        }
    }

    answer& answer_;
    protocol::reply_collector& collector_;
    answer_log log_;
    text_splitter splitter_{answer_};
    std::vector<std::pair<std::string, std::string>> fields_;
    reply reply_;
};

}  // namespace

std::optional<response> refuse_other_model(const services& with, const request& incoming,
                                           std::string_view wanted) {
    if (!with.settings.strict_model_names) return std::nullopt;
    auto known = protocol::check_model(wanted, with.engines.get()->info().id);
    if (known) return std::nullopt;
    return error_response(incoming, known.error());
}

clock::time_point answer_deadline(const services& with) {
    return clock::now() + with.settings.request_timeout;
}

protocol::result<std::optional<storage::agent_id>> agent_of_headers(const request& incoming) {
    return protocol::agent_of({incoming.field("x-session-id"),
                               incoming.field("x-claude-code-session-id"),
                               incoming.field("x-claude-code-agent-id")});
}

net::awaitable<reply> stream_answer(const answer_context& of, engine::generation_request wanted,
                                    protocol::reply_stream& as) {
    answer one(of, std::move(wanted));
    streamed_answer streamed(one, as);
    co_return co_await streamed.run();
}

net::awaitable<reply> collect_answer(const answer_context& of, engine::generation_request wanted,
                                     protocol::reply_collector& as) {
    answer one(of, std::move(wanted));
    collected_answer collected(one, as);
    co_return co_await collected.run();
}

}  // namespace semantic::server

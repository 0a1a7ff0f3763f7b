// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/answer/answer.hpp"

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "engine/text/output/output_parser.hpp"
#include "protocol/models.hpp"
#include "server/engines/answer_clock.hpp"
#include "server/http/sse_writer.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/token_stream.hpp"
#include "server/usage/key_account.hpp"

namespace semantic::server {

namespace {

using protocol::errc;
using clock = std::chrono::steady_clock;
using reply = std::optional<response>;

protocol::failure too_late() {
    return fail(errc::timeout, "the answer took longer than the server allows");
}

// How many bytes of a text are logged.
constexpr std::size_t logged_text_bytes_max = 16 * 1024;

std::string logged(const std::string& text) {
    if (text.size() <= logged_text_bytes_max) return text;
    return text.substr(0, logged_text_bytes_max) + " ...";
}

/// Logs the last message of a request, where the operator turned that on.
void log_question(const request& incoming, const engine::generation_request& wanted) {
    std::string text = wanted.text.value_or("");
    if (!wanted.text && !wanted.chat.messages.empty())
        for (const engine::content_part& part : wanted.chat.messages.back().parts)
            if (const auto* said = std::get_if<engine::text_part>(&part)) text += said->text;
    log_event(log_level::info, incoming.id_for_log(), "asked: " + logged(text));
}

/// What the log says about one answer; numbers and ids only, unless `shows_text`.
class answer_log {
  public:
    answer_log(const request& to, const token_stream& events, bool shows_text)
        : request_(to), events_(events), shows_text_(shows_text) {}

    void add(const engine::token_text& event) {
        if (shows_text_ && text_.size() <= logged_text_bytes_max) text_ += event.text;
    }

    void add(const engine::queued& event) {
        log_event(log_level::debug, request_.id_for_log(),
                  "queued behind " + std::to_string(event.ahead) + " others, for about " +
                      std::to_string(event.estimate.count()) + " s");
    }
    void add(const engine::admitted& event) {
        const engine::prompt_usage& usage = event.usage;
        line_ = "agent " + event.agent.str() + " prompt " + std::to_string(usage.prompt_tokens) +
                " reused " + std::to_string(usage.reused_tokens) + " (from disk " +
                std::to_string(usage.restored_tokens) + ") computed " +
                std::to_string(usage.created_tokens + usage.recomputed_tokens);
        if (usage.why != engine::miss_reason::none) {
            line_.append(" miss ").append(to_string(usage.why));
            if (!usage.detail.empty()) line_.append(" (").append(usage.detail).append(")");
        }
        for (const std::string& each : usage.not_held)
            log_event(log_level::info, request_.id_for_log(), "not held: " + each);
    }
    void add(const engine::finished& event) {
        line_ += " output " + std::to_string(event.output_tokens);
        if (auto waited = events_.first_token_after())
            line_ += " first token after " + in_milliseconds(*waited);
        line_.append(" stop ")
            .append(to_string(event.why))
            .append(event.saved ? " saved" : " not saved");
        if (event.unsaved != engine::unsaved_reason::none)
            line_.append(": ").append(to_string(event.unsaved));
        log_event(log_level::info, request_.id_for_log(), line_);
        if (shows_text_)
            log_event(log_level::info, request_.id_for_log(), "answered: " + logged(text_));
    }
    void add(const engine::failed& event) {
        log_event(event.kind == engine::failure_kind::internal ? log_level::error : log_level::info,
                  request_.id_for_log(),
                  (line_.empty() ? "refused: " : line_ + " failed: ") + event.what);
    }
    void client_gone() {
        log_event(log_level::info, request_.id_for_log(), line_ + " client gone, cancelled");
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
    bool shows_text_;
    std::string line_;
    std::string text_;
};

/// Headers that say how many prompt tokens were reused.
std::vector<std::pair<std::string, std::string>> cache_fields(const engine::admitted& event) {
    std::vector<std::pair<std::string, std::string>> fields{
        {"x-semantic-agent", event.agent.str()},
        {"x-semantic-prompt-tokens", std::to_string(event.usage.prompt_tokens)},
        {"x-semantic-reused-tokens", std::to_string(event.usage.reused_tokens)}};
    if (event.usage.why != engine::miss_reason::none)
        fields.emplace_back("x-semantic-miss-reason", to_string(event.usage.why));
    return fields;
}

/// Headers that say how long the request had to wait.
std::vector<std::pair<std::string, std::string>> queue_fields(const engine::queued& event) {
    return {{"x-semantic-queued-behind", std::to_string(event.ahead)},
            {"x-semantic-queue-estimate-s", std::to_string(event.estimate.count())}};
}

/// The events of a request, which stop when the client leaves.
std::shared_ptr<token_stream> events_for(const answer_context& context) {
    auto events = std::make_shared<token_stream>(context.client.executor(), context.server.waking,
                                                 account_of(context.incoming));
    context.client.when_gone([events] { events->interrupt(); });
    return events;
}

/// The request with its client's tenant, a seed and a name for the answer's end.
engine::generation_request owned(const answer_context& context, engine::generation_request wanted) {
    wanted.tenant = tenant_of(context.incoming);
    if (!wanted.sampling.seed) wanted.sampling.seed = context.server.seed.get();
    // Every answer's end is known by some name, so that a later request can append to it.
    if (!wanted.message_id) wanted.message_id = "end:" + context.incoming.id.substr(0, 64);
    return wanted;
}

engine::offered_tools tools_of(const engine::generation_request& wanted) {
    // An appended prompt does not list the tools again.
    const bool lists_no_tools = wanted.append && !wanted.text;
    const auto& tools = wanted.chat.callable_tools();
    if (lists_no_tools && tools.empty()) return engine::offered_tools::any();
    return engine::offered_tools(tools);
}

/// One answer in the making.
struct answer {
    answer(const answer_context& context, engine::generation_request wanted)
        : incoming(context.incoming),
          client(context.client),
          at_end(context.at_end),
          to(context.to),
          probe(context.server.probe),
          tools(tools_of(wanted)),
          format(context.incoming.engine->info().answers),
          thinks(wanted.thinking.enabled.value_or(format.thinks_unless_said)),
          is_raw(wanted.text.has_value()),
          choices(wanted.choices),
          logs_text(context.server.settings.log_prompts),
          time(wanted.deadline.value(), context.server.limits.engine_lateness),
          events(events_for(context)),
          generation(context.incoming.engine, owned(context, std::move(wanted)), events) {}

    const request& incoming;
    client_link& client;
    before_end* at_end;  // or null
    event_sink* to;      // or null
    server_probe& probe;
    engine::offered_tools tools;
    engine::answer_format format;  // how the model writes calls
    bool thinks;
    bool is_raw;  // text goes in and text comes out, whatever the family would read in it
    int choices;
    bool logs_text;
    answer_clock time;
    std::shared_ptr<token_stream> events;
    running_request generation;
};

/// Splits one choice's text into what is shown, what is called and what is thought. Keeps the
/// scores of tokens until their text is shown.
class choice_text {
  public:
    explicit choice_text(const answer& answer) : parser_(parser_of(answer, answer.format)) {}

    /// Parses `begun`, the beginning of the answer that the prompt has already; it is not shown.
    void begin(const answer& answer, std::string_view begun) {
        if (begun.empty()) return;
        engine::answer_format format = answer.format;
        format.opened = {};  // what opens the reasoning is in it
        parser_ = parser_of(answer, format);
        for (engine::answer_piece& piece : parser_->push(begun)) take_begun(std::move(piece));
        // The parser holds back what it would return if nothing followed.
        const auto other = parser_of(answer, format);
        other->push(begun);
        for (const engine::answer_piece& piece : other->finish()) held_back_ += said_in(piece);
    }
    /// Gives `to` the text that is certain now. `take(send)` gets a function that calls it, and
    /// keeps what it returns.
    template <class Reply, class Take>
    void show(const engine::token_text& token, Reply& to, Take take) {
        if (token.scores) scores_.push_back(*token.scores);
        feed(parser_->push(token.text), to, take);
    }
    template <class Reply, class Take>
    void finish(engine::stop_reason why, Reply& to, Take take) {
        const bool was_cut = why != engine::stop_reason::end_turn;
        // An answer that ends at a stop string is complete: a call that it broke off is not shown.
        shows_cut_call_ = was_cut && why != engine::stop_reason::stop_sequence;
        feed(was_cut ? parser_->cut_off() : parser_->finish(), to, take);
    }

  private:
    template <class Reply, class Take>
    void feed(const std::vector<engine::answer_piece>& pieces, Reply& to, Take take) {
        if (!begun_.empty() && !pieces.empty()) {
            // Once only: begun_ is empty from here on.
            std::vector<engine::answer_piece> all = std::exchange(begun_, {});
            all.insert(all.end(), pieces.begin(), pieces.end());
            return feed(all, to, take);
        }
        for (const auto& piece : pieces) {
            if (const auto* text = std::get_if<engine::answer_text>(&piece)) {
                // Scores belong to the first piece after their tokens. Only text is shown with
                // them.
                if (!scores_.empty()) to.on_scores(scores_);
                const std::string_view shown = without_begun(text->text);
                if (!shown.empty()) take([&] { return to.on_text(shown); });
            }
            if (const auto* thinking = std::get_if<engine::answer_thinking>(&piece)) {
                const std::string_view shown = without_begun(thinking->text);
                if (!shown.empty()) take([&] { return to.on_thinking(shown); });
            }
            if constexpr (std::is_base_of_v<protocol::reply_stream, Reply>) {
                feed_progress(piece, to, take);
            } else {
                collect_call(piece, to, take);
            }
            if (std::holds_alternative<engine::answer_call>(piece)) held_back_.clear();
            scores_.clear();
        }
    }
    /// A call is shown while it is written where the parser announced its begin, else as a whole.
    template <class Take>
    void feed_progress(const engine::answer_piece& piece, protocol::reply_stream& to, Take take) {
        if (const auto* begun = std::get_if<engine::answer_call_begun>(&piece)) {
            in_call_ = true;
            take([&] { return to.on_call_begun(begun->name); });
        }
        if (const auto* part = std::get_if<engine::answer_call_arguments>(&piece))
            take([&] { return to.on_call_arguments(part->text); });
        if (std::holds_alternative<engine::answer_call_dropped>(piece)) {
            in_call_ = false;
            take([&] { return to.on_call_ended(false); });
        }
        const auto* call = std::get_if<engine::answer_call>(&piece);
        if (call == nullptr) return;
        if (std::exchange(in_call_, false))
            take([&] { return to.on_call_ended(true); });
        else
            take([&] { return to.on_tool_call(call->name, call->arguments_json); });
    }

    /// Keeps a call while it is written, to show it if the answer is cut there. A dropped call
    /// comes again as text.
    template <class Take>
    void collect_call(const engine::answer_piece& piece, protocol::reply_collector& to, Take take) {
        if (const auto* begun = std::get_if<engine::answer_call_begun>(&piece))
            open_call_ = engine::answer_call{begun->name, {}};
        if (const auto* part = std::get_if<engine::answer_call_arguments>(&piece);
            part && open_call_)
            open_call_->arguments_json += part->text;
        if (std::holds_alternative<engine::answer_call_dropped>(piece)) {
            const auto cut = std::exchange(open_call_, std::nullopt);
            if (cut && shows_cut_call_)
                take([&] { return to.on_cut_call(cut->name, cut->arguments_json); });
        }
        const auto* call = std::get_if<engine::answer_call>(&piece);
        if (call == nullptr) return;
        open_call_.reset();
        take([&] { return to.on_tool_call(call->name, call->arguments_json); });
    }

    std::unique_ptr<engine::output_parser> parser_of(const answer& answer,
                                                     const engine::answer_format& format) const {
        if (answer.is_raw) return engine::make_plain_parser();
        return engine::make_output_parser(format, answer.tools,
                                          {.thinks = answer.thinks, .shows_progress = true});
    }
    static std::string_view said_in(const engine::answer_piece& piece) {
        if (const auto* text = std::get_if<engine::answer_text>(&piece)) return text->text;
        const auto* thinking = std::get_if<engine::answer_thinking>(&piece);
        return thinking == nullptr ? std::string_view() : thinking->text;
    }
    /// An open call in the beginning is part of the answer and kept for it. A whole one belongs to
    /// the client, like text there.
    void take_begun(engine::answer_piece piece) {
        const bool is_open = std::holds_alternative<engine::answer_call_begun>(piece) ||
                             std::holds_alternative<engine::answer_call_arguments>(piece);
        if (is_open)
            begun_.push_back(std::move(piece));
        else
            begun_.clear();
    }
    /// `text` without what the parser had held back of the beginning. Where that does not come
    /// again, it was part of a mark and no text.
    std::string_view without_begun(std::string_view text) {
        const std::size_t both = std::min(held_back_.size(), text.size());
        if (text.substr(0, both) != std::string_view(held_back_).substr(0, both)) {
            held_back_.clear();
            return text;
        }
        held_back_.erase(0, both);
        return text.substr(both);
    }

    std::unique_ptr<engine::output_parser> parser_;
    std::vector<engine::answer_piece> begun_;  // an open call of the beginning
    std::string held_back_;  // text of the beginning that the parser returns later
    std::vector<engine::token_scores> scores_;
    bool in_call_ = false;                          // one is shown while it is written
    std::optional<engine::answer_call> open_call_;  // of a reply in one piece
    bool shows_cut_call_ = false;
};

/// One for each choice of the answer.
std::vector<choice_text> texts_of(const answer& answer) {
    std::vector<choice_text> texts;
    for (int i = 0; i < answer.choices; ++i) texts.emplace_back(answer);
    return texts;
}

/// The answer as server-sent events.
class streamed_answer {
  public:
    streamed_answer(answer& answer, protocol::reply_stream& as)
        : answer_(answer),
          stream_(as),
          own_(answer.client, answer.incoming, as.content_type()),
          writer_(answer.to == nullptr ? static_cast<event_sink&>(own_) : *answer.to),
          log_(answer.incoming, *answer.events, answer.logs_text) {}

    net::awaitable<reply> run() {
        while (!stream_.ended() && !refusal_) {
            clock::time_point until =
                std::min(last_write_ + answer_.client.ping_every(), answer_.time.until());
            auto batch = co_await answer_.events->next(until);
            if (answer_.client.is_gone()) break;
            std::string bytes;
            for (const engine::generation_event& event : batch) bytes += take(event);
            if (refusal_) break;
            if (batch.empty()) bytes = on_silence();
            if (bytes.empty()) continue;
            if (stream_.ended() && answer_.at_end != nullptr) co_await answer_.at_end->run(bytes);
            last_write_ = clock::now();
            if (!co_await writer_.write(bytes)) break;
            count_first_byte();
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
        answer_.time.take(event);
        return std::visit([this](const auto& one) { return handle(one); }, event);
    }
    std::string handle(const engine::queued& event) {
        log_.add(event);
        if (!writer_.begun())
            for (auto& [name, value] : queue_fields(event)) writer_.add_field(name, value);
        return {};
    }
    std::string handle(const engine::admitted& event) {
        log_.add(event);
        admitted_ = event.at;
        for (choice_text& text : texts_) text.begin(answer_, event.begun);
        if (!writer_.begun())
            for (auto& [name, value] : cache_fields(event)) writer_.add_field(name, value);
        return stream_.on_admitted(event);
    }
    std::string handle(const engine::token_text& event) {
        std::string bytes;
        log_.add(event);
        stream_.on_choice(event.choice);
        text_of(event.choice).show(event, stream_, [&](auto send) { bytes += send(); });
        return bytes;
    }
    std::string handle(const engine::choice_finished& event) {
        std::string bytes = rest_of(event.choice, event.why);
        return bytes += stream_.on_choice_finished(event);
    }
    std::string handle(const engine::finished& event) {
        log_.add(event);
        answer_.generation.ended();
        // The key may send its next request, while this client still reads.
        if (answer_.incoming.slot) answer_.incoming.slot->release();
        std::string bytes;  // what was held back comes before the end
        if (answer_.choices == 1) bytes = rest_of(0, event.why);
        return bytes += stream_.on_finished(event);
    }
    std::string handle(const engine::failed& event) {
        log_.add(event);
        answer_.generation.ended();
        protocol::failure failure = protocol::from_engine(event);
        if (!writer_.begun()) {
            refusal_ = error_response(
                answer_.incoming, failure);  // nothing is out yet: a plain error with its status
            return {};
        }
        return stream_.on_failed(failure);
    }
    choice_text& text_of(int choice) { return texts_[static_cast<std::size_t>(choice)]; }
    std::string rest_of(int choice, engine::stop_reason why) {
        std::string bytes;
        stream_.on_choice(choice);
        text_of(choice).finish(why, stream_, [&](auto send) { bytes += send(); });
        return bytes;
    }
    void count_first_byte() {
        auto since = std::exchange(admitted_, std::nullopt);
        if (!since) return;
        std::chrono::duration<double> took = clock::now() - *since;
        answer_.probe.first_byte.observe(took.count());
    }
    std::string on_silence() {
        // Nothing came for as long as a stream may be silent, or until the deadline.
        if (clock::now() < answer_.time.until()) return stream_.ping();
        const protocol::failure late = too_late();
        if (writer_.begun()) return stream_.on_failed(late);
        refusal_ = error_response(answer_.incoming, late);
        return {};
    }

    answer& answer_;
    protocol::reply_stream& stream_;
    sse_writer own_;
    event_sink& writer_;
    answer_log log_;
    std::vector<choice_text> texts_ = texts_of(answer_);
    clock::time_point last_write_ = clock::now();
    std::optional<clock::time_point> admitted_;  // until the first bytes are out
    reply refusal_;
};

/// The answer as one body.
class collected_answer {
  public:
    collected_answer(answer& answer, protocol::reply_collector& as)
        : answer_(answer),
          collector_(as),
          log_(answer.incoming, *answer.events, answer.logs_text) {}

    net::awaitable<reply> run() {
        while (!reply_) {
            auto batch = co_await answer_.events->next(answer_.time.until());
            if (answer_.client.is_gone()) {
                log_.client_gone();
                co_return std::nullopt;
            }
            for (const engine::generation_event& event : batch) {
                answer_.time.take(event);
                std::visit([this](const auto& one) { handle(one); }, event);
            }
            if (batch.empty()) reply_ = error_response(answer_.incoming, too_late());
        }
        if (is_complete_ && answer_.at_end != nullptr) co_await answer_.at_end->run(reply_->body);
        co_return std::move(reply_);
    }

  private:
    void handle(const engine::queued& event) {
        log_.add(event);
        fields_ = queue_fields(event);
    }
    void handle(const engine::admitted& event) {
        log_.add(event);
        for (choice_text& text : texts_) text.begin(answer_, event.begun);
        for (auto& field : cache_fields(event)) fields_.push_back(std::move(field));
        collector_.on_admitted(event);
    }
    void handle(const engine::token_text& event) {
        log_.add(event);
        collector_.on_choice(event.choice);
        text_of(event.choice).show(event, collector_, [](auto keep) { keep(); });
    }
    void handle(const engine::choice_finished& event) {
        finish_text(event.choice, event.why);
        collector_.on_choice_finished(event);
    }
    void handle(const engine::finished& event) {
        log_.add(event);
        answer_.generation.ended();
        if (answer_.choices == 1) finish_text(0, event.why);
        protocol::result<std::string> body = collector_.on_finished(event);
        is_complete_ = static_cast<bool>(body);
        reply_ =
            body ? json_response(std::move(*body)) : error_response(answer_.incoming, body.error());
        for (auto& field : fields_) reply_->fields.push_back(std::move(field));
    }
    void handle(const engine::failed& event) {
        log_.add(event);
        answer_.generation.ended();
        reply_ = error_response(answer_.incoming, protocol::from_engine(event));
    }

    choice_text& text_of(int choice) { return texts_[static_cast<std::size_t>(choice)]; }
    void finish_text(int choice, engine::stop_reason why) {
        collector_.on_choice(choice);
        text_of(choice).finish(why, collector_, [](auto keep) { keep(); });
    }

    answer& answer_;
    protocol::reply_collector& collector_;
    answer_log log_;
    std::vector<choice_text> texts_ = texts_of(answer_);
    std::vector<std::pair<std::string, std::string>> fields_;
    bool is_complete_ = false;
    reply reply_;
};

}  // namespace

std::optional<response> refuse_other_model(const services& server, const request& incoming,
                                           std::string_view wanted) {
    const registry& models = server.models.list();
    const std::size_t loaded = incoming.engine.model();
    const std::string& running = incoming.engine->info().id;
    if (wanted == running) return std::nullopt;
    const auto meant = models.resolve(wanted, loaded, server.settings.strict_model_names);
    if (meant == loaded) return std::nullopt;
    if (meant)
        return error_response(incoming,
                              protocol::model_not_loaded(models.at(*meant).name, running));
    const std::string known = models.size() > 1 ? models.names() : std::string();
    return error_response(incoming, protocol::no_such_model(wanted, running, known));
}

clock::time_point answer_deadline(const services& server) {
    return clock::now() + server.settings.request_timeout;
}

protocol::identity_headers identity_of(const request& incoming) {
    return {incoming.field("x-session-id"),
            incoming.field("x-claude-code-session-id"),
            incoming.field("x-claude-code-agent-id"),
            incoming.field("x-claude-code-parent-agent-id"),
            incoming.field("x-parent-session-id"),
            incoming.field("thread-id"),
            incoming.field("session-id")};
}

storage::tenant_id tenant_of(const request& incoming) {
    const std::string& credential = incoming.credential.value();
    return credential.empty() ? storage::tenant_id() : incoming.engine->tenant(credential);
}

std::shared_ptr<key_account> account_of(const request& incoming) {
    return incoming.slot ? incoming.slot->account() : nullptr;
}

protocol::result<std::optional<storage::agent_id>> agent_of_headers(const request& incoming) {
    return protocol::agent_of(identity_of(incoming));
}

protocol::result<std::optional<storage::agent_id>> parent_of_headers(const request& incoming) {
    return protocol::parent_of(identity_of(incoming));
}

net::awaitable<reply> stream_answer(const answer_context& context,
                                    engine::generation_request wanted, protocol::reply_stream& as) {
    if (context.server.settings.log_prompts) log_question(context.incoming, wanted);
    answer one(context, std::move(wanted));
    streamed_answer streamed(one, as);
    co_return co_await streamed.run();
}

net::awaitable<reply> collect_answer(const answer_context& context,
                                     engine::generation_request wanted,
                                     protocol::reply_collector& as) {
    if (context.server.settings.log_prompts) log_question(context.incoming, wanted);
    answer one(context, std::move(wanted));
    collected_answer collected(one, as);
    co_return co_await collected.run();
}

}  // namespace semantic::server

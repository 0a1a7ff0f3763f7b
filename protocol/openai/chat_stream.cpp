// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/chat_stream.hpp"

#include <boost/json.hpp>

#include <utility>

#include "protocol/openai/reply_fields.hpp"
#include "protocol/openai/text_tools.hpp"
#include "protocol/openai/token_scores.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::openai {

namespace json = boost::json;

namespace {

json::object head_of(const reply_options& options, std::string_view object) {
    return {{"id", options.completion_id},
            {"object", object},
            {"created", options.created_unix},
            {"model", options.model},
            {"system_fingerprint", options.system_fingerprint}};
}

/// Returns: a chunk with these choices. Where usage was asked for, `usage` is null in all chunks
/// but the last.
json::object chunk_of(const reply_options& options, json::array choices, json::value usage) {
    json::object chunk = head_of(options, "chat.completion.chunk");
    chunk["choices"] = std::move(choices);
    if (options.include_usage) chunk["usage"] = std::move(usage);
    return chunk;
}

/// Returns: a chunk with the change of one choice.
json::object delta_chunk(const reply_options& options, std::size_t choice, json::object delta,
                         json::value logprobs, json::value reason) {
    return chunk_of(options,
                    {json::object{{"index", choice},
                                  {"delta", std::move(delta)},
                                  {"logprobs", std::move(logprobs)},
                                  {"finish_reason", std::move(reason)}}},
                    nullptr);
}

json::value logprobs_of(json::array entries) {
    return json::object{{"content", std::move(entries)}, {"refusal", nullptr}};
}

std::string event_of(json::object chunk) { return sse_event("", to_text(std::move(chunk))); }

/// Returns: a call. `said`: its arguments, or the text where `takes_text`.
json::object named_call(const std::string& id, std::string_view name, std::string_view said,
                        bool takes_text) {
    const char* type = takes_text ? "custom" : "function";
    return {{"id", id},
            {"type", type},
            {type, json::object{{"name", name}, {takes_text ? "input" : "arguments", said}}}};
}

json::object tool_delta(json::object call) {
    return {{"tool_calls", json::array{std::move(call)}}};
}

}  // namespace

std::string shown_parts::text(std::string_view piece) {
    std::string shown = space_.text(piece, is_behind_call_);
    is_behind_call_ = is_behind_call_ && is_white_space(piece);
    return shown;
}

std::optional<shown_parts::call> shown_parts::begin_call() {
    if (tool_calls_max_ && calls_ >= *tool_calls_max_) return std::nullopt;
    space_.drop();
    is_behind_call_ = true;
    return call{begun_++, ids_->call_id()};
}

chat_stream::chat_stream(reply_options options, id_maker& ids)
    : options_(std::move(options)),
      choices_(static_cast<std::size_t>(options_.choices),
               one_choice{shown_parts(options_.tool_calls_max, ids), {}, {}, {}}) {}

std::string chat_stream::on_admitted(const engine::admitted& event) {
    if (state_ != state::fresh) return {};
    state_ = state::open;
    usage_ = event.usage;
    agent_ = event.agent.str();
    std::string bytes;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
        // No text yet, not even an empty one: clients open a part for it, before a tool call too.
        json::object chunk = delta_chunk(options_, i, {{"role", "assistant"}, {"content", nullptr}},
                                         nullptr, nullptr);
        if (i == 0) {
            json::object memory = memory_object(agent_, usage_);
            add_left_out(memory, options_.left_out);
            chunk["semantic"] = std::move(memory);
        }
        bytes += event_of(std::move(chunk));
    }
    return bytes;
}

void chat_stream::on_choice(int choice) { current_ = static_cast<std::size_t>(choice); }

void chat_stream::on_scores(std::span<const engine::token_scores> scores) {
    append_scores(current().scores, scores);
}

std::string chat_stream::on_text(std::string_view text) {
    if (state_ != state::open) return {};
    std::string shown = current().parts.text(text);
    if (shown.empty()) return {};
    json::value logprobs;
    // Also those of space that was held until now.
    if (!current().scores.empty()) logprobs = logprobs_of(std::exchange(current().scores, {}));
    return event_of(
        delta_chunk(options_, current_, {{"content", shown}}, std::move(logprobs), nullptr));
}

std::string chat_stream::on_thinking(std::string_view text) {
    if (state_ != state::open || text.empty()) return {};
    ++thinking_tokens_;
    return event_of(
        delta_chunk(options_, current_, {{"reasoning_content", text}}, nullptr, nullptr));
}

std::string chat_stream::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    std::string bytes = on_call_begun(name);
    bytes += on_call_arguments(*arguments);
    return bytes + on_call_ended(true);
}

std::string chat_stream::call_chunk(json::object call) const {
    return event_of(delta_chunk(options_, current_, tool_delta(std::move(call)), nullptr, nullptr));
}

std::string chat_stream::on_call_begun(std::string_view name) {
    if (state_ != state::open) return {};
    auto call = current().parts.begin_call();
    if (!call) return {};
    current().open_call = call->index;
    const bool takes_text = options_.text_tools.contains(std::string(name));
    // The text is inside JSON, which is read when it is whole.
    current().input = takes_text ? std::optional<std::string>(std::in_place) : std::nullopt;
    json::object shown{{"index", call->index}};
    for (auto& field : named_call(call->id, name, "", takes_text))
        shown.emplace(field.key(), std::move(field.value()));
    return call_chunk(std::move(shown));
}

std::string chat_stream::on_call_arguments(std::string_view json) {
    if (state_ != state::open || !current().open_call || json.empty()) return {};
    if (current().input) {
        *current().input += json;
        return {};
    }
    return call_chunk(
        {{"index", *current().open_call}, {"function", json::object{{"arguments", json}}}});
}

std::string chat_stream::on_call_ended(bool is_whole) {
    const auto index = std::exchange(current().open_call, std::nullopt);
    const auto input = std::exchange(current().input, std::nullopt);
    if (!index) return {};
    current().parts.end_call(is_whole);
    const std::string text = input ? read_text_input(*input) : std::string();
    if (state_ != state::open || text.empty()) return {};
    return call_chunk({{"index", *index}, {"custom", json::object{{"input", text}}}});
}

std::string chat_stream::on_choice_finished(const engine::choice_finished& event) {
    // The first choice ends with the whole answer, in on_finished().
    if (state_ != state::open || event.choice == 0) return {};
    auto index = static_cast<std::size_t>(event.choice);
    bool has_calls = choices_[index].parts.call_count() > 0;
    return event_of(delta_chunk(options_, index, {}, nullptr, finish_reason(event.why, has_calls)));
}

std::string chat_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (state_ == state::fresh)
        return on_failed(fail(errc::internal, "the answer ended before it began"));
    if (state_ == state::ended) return {};
    state_ = state::ended;
    bool has_calls = choices_[0].parts.call_count() > 0;
    json::object last = delta_chunk(options_, 0, {}, nullptr, finish_reason(event.why, has_calls));
    // Whole once more: clients that fold chunks into one keep the last value of a field.
    json::object memory = memory_object(agent_, usage_, event);
    add_left_out(memory, options_.left_out);
    last["semantic"] = std::move(memory);
    std::string bytes = event_of(std::move(last));
    if (options_.include_usage)
        bytes += event_of(chunk_of(options_, {}, usage_object(usage_, event, thinking_tokens_)));
    return bytes + sse_event("", "[DONE]");
}

std::string chat_stream::on_failed(const failure& f) {
    if (state_ == state::ended) return {};
    state_ = state::ended;
    return error_event(dialect::openai, f, {});
}

std::string chat_stream::ping() const {
    if (state_ == state::ended) return {};
    return sse_comment("ping");
}

chat_collector::chat_collector(reply_options options, id_maker& ids)
    : options_(std::move(options)),
      choices_(static_cast<std::size_t>(options_.choices),
               one_choice{shown_parts(options_.tool_calls_max, ids), {}, {}, {}, {}}) {}

void chat_collector::on_admitted(const engine::admitted& event) {
    usage_ = event.usage;
    agent_ = event.agent.str();
}

void chat_collector::on_choice(int choice) { current_ = static_cast<std::size_t>(choice); }

void chat_collector::on_scores(std::span<const engine::token_scores> scores) {
    if (!current().scores) current().scores.emplace();
    append_scores(*current().scores, scores);
}

void chat_collector::on_text(std::string_view text) {
    current().text += current().parts.text(text);
}

void chat_collector::on_thinking(std::string_view text) {
    if (!text.empty()) ++thinking_tokens_;
    current().thinking += text;
}

void chat_collector::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    auto shown = current().parts.begin_call();
    if (!shown) return;
    current().parts.end_call(true);
    current().calls.push_back({shown->id, std::string(name), std::move(*arguments)});
}

void chat_collector::on_cut_call(std::string_view name, std::string_view arguments) {
    auto shown = current().parts.begin_call();
    if (!shown) return;
    // The client sees a call that was cut off, but it does not count.
    current().parts.end_call(false);
    current().calls.push_back({shown->id, std::string(name), std::string(arguments)});
}

void chat_collector::on_choice_finished(const engine::choice_finished& event) {
    choices_[static_cast<std::size_t>(event.choice)].why = event.why;
}

/// A call as the reply has it; a tool that takes a text gets that and no JSON.
json::object chat_collector::call_object(const call& made) const {
    if (!options_.text_tools.contains(made.name))
        return named_call(made.id, made.name, made.arguments, false);
    return named_call(made.id, made.name, read_text_input(made.arguments), true);
}

result<std::string> chat_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    choices_[0].why = event.why;
    json::array choices;
    for (one_choice& one : choices_) {
        // Null is the vendor's word for "calls only"; an empty answer is an empty text.
        bool has_content = !one.text.empty() || one.calls.empty();
        json::object message{{"role", "assistant"},
                             {"content", has_content ? json::value(one.text) : json::value()},
                             {"refusal", nullptr}};
        if (!one.thinking.empty()) message["reasoning_content"] = one.thinking;
        json::array calls;
        for (const call& made : one.calls) calls.push_back(call_object(made));
        // A call that was cut off is shown, but is no reason for the client to run it.
        const char* reason = finish_reason(one.why, one.parts.call_count() > 0);
        if (!calls.empty()) message["tool_calls"] = std::move(calls);
        json::value logprobs;
        if (one.scores) logprobs = logprobs_of(std::move(*one.scores));
        choices.push_back(json::object{{"index", choices.size()},
                                       {"message", std::move(message)},
                                       {"logprobs", std::move(logprobs)},
                                       {"finish_reason", reason}});
    }
    json::object body = head_of(options_, "chat.completion");
    body["choices"] = std::move(choices);
    body["usage"] = usage_object(usage_, event, thinking_tokens_);
    json::object memory = memory_object(agent_, usage_, event);
    add_left_out(memory, options_.left_out);
    body["semantic"] = std::move(memory);
    return to_text(std::move(body));
}

}  // namespace semantic::protocol::openai

#include "protocol/openai/chat_stream.hpp"

#include <boost/json.hpp>

#include <utility>

#include "protocol/api_error.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/sse.hpp"

namespace semantic::protocol::openai {

namespace json = boost::json;

namespace {

json::object usage_object(const engine::prompt_usage& usage, int output_tokens,
                          int thinking_tokens) {
    return {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", output_tokens},
            {"total_tokens", usage.prompt_tokens + output_tokens},
            {"prompt_tokens_details", json::object{{"cached_tokens", usage.reused_tokens},
                                                   {"cache_write_tokens", usage.created_tokens}}},
            {"completion_tokens_details", json::object{{"reasoning_tokens", thinking_tokens}}}};
}

const char* finish_reason(const engine::finished& event, bool has_tool_calls) {
    switch (event.why) {
        // Only a turn that the model ended itself may say tool_calls: a client runs them then.
        case engine::stop_reason::end_turn:
            return has_tool_calls ? "tool_calls" : "stop";
        case engine::stop_reason::stop_sequence:
            return "stop";
        case engine::stop_reason::max_tokens:
        case engine::stop_reason::context_full:
            return "length";
        case engine::stop_reason::cancelled:
        case engine::stop_reason::deadline:
            break;
    }
    return "stop";
}

json::object head_of(const reply_options& options, std::string_view object) {
    return {{"id", options.completion_id},
            {"object", object},
            {"created", options.created_unix},
            {"model", options.model},
            {"system_fingerprint", options.system_fingerprint}};
}

/// A chunk without choices yet. Its `usage` is null until the last one, if usage was asked for.
json::object chunk_of(const reply_options& options, json::array choices, json::value usage) {
    json::object chunk = head_of(options, "chat.completion.chunk");
    chunk["choices"] = std::move(choices);
    if (options.include_usage) chunk["usage"] = std::move(usage);
    return chunk;
}

json::object delta_chunk(const reply_options& options, json::object delta, json::value reason) {
    return chunk_of(options,
                    {json::object{{"index", 0},
                                  {"delta", std::move(delta)},
                                  {"logprobs", nullptr},
                                  {"finish_reason", std::move(reason)}}},
                    nullptr);
}

std::string event_of(const json::object& chunk) { return sse_event("", json::serialize(chunk)); }

json::object tool_delta(json::object call) {
    return {{"tool_calls", json::array{std::move(call)}}};
}

}  // namespace

std::string shown_parts::text(std::string_view piece) {
    if (is_behind_call_ && is_white_space(piece)) {
        held_space_ += piece;
        return {};
    }
    is_behind_call_ = false;
    std::string whole = std::exchange(held_space_, {});
    whole += piece;
    return whole;
}

std::optional<shown_parts::call> shown_parts::next_call(std::string arguments) {
    if (tool_calls_max_ && calls_ >= *tool_calls_max_) return std::nullopt;
    held_space_.clear();
    is_behind_call_ = true;
    return call{calls_++, ids_->call_id(), std::move(arguments)};
}

chat_stream::chat_stream(reply_options options, id_maker& ids)
    : options_(std::move(options)), parts_(options_.tool_calls_max, ids) {}

std::string chat_stream::on_admitted(const engine::admitted& event) {
    if (state_ != state::fresh) return {};
    state_ = state::open;
    usage_ = event.usage;
    agent_ = event.agent.str();
    json::object chunk = delta_chunk(options_, {{"role", "assistant"}, {"content", ""}}, nullptr);
    chunk["semantic"] = memory_object(agent_, usage_);
    return event_of(chunk);
}

std::string chat_stream::on_text(std::string_view text) {
    if (state_ != state::open) return {};
    std::string shown = parts_.text(text);
    if (shown.empty()) return {};
    return event_of(delta_chunk(options_, {{"content", shown}}, nullptr));
}

std::string chat_stream::on_thinking(std::string_view text) {
    if (state_ != state::open || text.empty()) return {};
    ++thinking_tokens_;
    return event_of(delta_chunk(options_, {{"reasoning_content", text}}, nullptr));
}

std::string chat_stream::on_tool_call(std::string_view name, std::string_view arguments_json) {
    if (state_ != state::open) return {};
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    auto call = parts_.next_call(std::move(*arguments));
    if (!call) return {};
    json::object first{{"index", call->index},
                       {"id", call->id},
                       {"type", "function"},
                       {"function", json::object{{"name", name}, {"arguments", ""}}}};
    json::object second{{"index", call->index},
                        {"function", json::object{{"arguments", call->arguments}}}};
    return event_of(delta_chunk(options_, tool_delta(std::move(first)), nullptr)) +
           event_of(delta_chunk(options_, tool_delta(std::move(second)), nullptr));
}

std::string chat_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (state_ == state::fresh)
        return on_failed({errc::internal, "the answer ended before it began", {}, {}});
    if (state_ == state::ended) return {};
    state_ = state::ended;
    json::object last = delta_chunk(options_, {}, finish_reason(event, parts_.call_count() > 0));
    // Whole once more: clients that fold chunks into one keep the last value of a field.
    json::object memory = memory_object(agent_, usage_);
    memory["saved"] = event.saved;
    last["semantic"] = std::move(memory);
    std::string bytes = event_of(last);
    if (options_.include_usage)
        bytes += event_of(
            chunk_of(options_, {}, usage_object(usage_, event.output_tokens, thinking_tokens_)));
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
    : options_(std::move(options)), parts_(options_.tool_calls_max, ids) {}

void chat_collector::on_admitted(const engine::admitted& event) {
    usage_ = event.usage;
    agent_ = event.agent.str();
}

void chat_collector::on_text(std::string_view text) { text_ += parts_.text(text); }

void chat_collector::on_thinking(std::string_view text) {
    if (!text.empty()) ++thinking_tokens_;
    thinking_ += text;
}

void chat_collector::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    auto shown = parts_.next_call(std::move(*arguments));
    if (shown) calls_.push_back({shown->id, std::string(name), std::move(shown->arguments)});
}

result<std::string> chat_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    // Null is the vendor's word for "calls only"; an empty answer is an empty text.
    bool has_content = !text_.empty() || calls_.empty();
    json::object message{{"role", "assistant"},
                         {"content", has_content ? json::value(text_) : json::value()},
                         {"refusal", nullptr}};
    if (!thinking_.empty()) message["reasoning_content"] = thinking_;
    if (!calls_.empty()) {
        json::array calls;
        for (const call& one : calls_)
            calls.push_back(json::object{
                {"id", one.id},
                {"type", "function"},
                {"function", json::object{{"name", one.name}, {"arguments", one.arguments}}}});
        message["tool_calls"] = std::move(calls);
    }
    json::object body = head_of(options_, "chat.completion");
    body["choices"] =
        json::array{json::object{{"index", 0},
                                 {"message", std::move(message)},
                                 {"logprobs", nullptr},
                                 {"finish_reason", finish_reason(event, !calls_.empty())}}};
    body["usage"] = usage_object(usage_, event.output_tokens, thinking_tokens_);
    json::object memory = memory_object(agent_, usage_);
    memory["saved"] = event.saved;
    body["semantic"] = std::move(memory);
    return json::serialize(body);
}

}  // namespace semantic::protocol::openai

// SPDX-License-Identifier: Apache-2.0
#include "protocol/agents/generate.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/anthropic/conversation.hpp"
#include "protocol/prompt_form.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/memory_wishes.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::agents {

namespace json = boost::json;

namespace {

constexpr int max_tokens_default = 256;

/// Reads the stop strings, under either name.
std::vector<std::string> parse_stop(const json_cursor& root, const request_limits& limits) {
    auto field = root.find("stop");
    if (!field) field = root.find("stop_sequences");
    return field ? parse_stops(*field, limits) : std::vector<std::string>();
}

/// Reads a prompt that is used verbatim. Complains of fields about messages.
void parse_raw_prompt(const json_cursor& root, const json_cursor& prompt,
                      generate_request& request) {
    for (const char* other : {"messages", "system", "tools"})
        if (auto field = root.find(other))
            field->fail(errc::bad_value,
                        "a raw prompt is the whole text; leave this out or send messages");
    constexpr const char* no_messages = "is about messages; a raw prompt is the whole text";
    for (const char* other : {"chat_template_kwargs", "continue_final_message"})
        refuse_field(root, other, no_messages);
    if (auto field = root.find("add_generation_prompt"); field && field->value() == false)
        field->fail(errc::unsupported, no_messages);
    request.prompt = std::string(prompt.as_string());
    if (request.prompt->empty()) prompt.fail(errc::bad_value, "must not be empty");
}

/// Reads messages, as /v1/messages has them.
void parse_chat(const json_cursor& root, const request_limits& limits, generate_request& request) {
    if (!root.find("messages"))
        root.place("prompt").fail(errc::missing_field, "required, unless there are messages");
    anthropic::messages_limits chat_limits;
    static_cast<request_limits&>(chat_limits) = limits;
    left_out_names left_out;
    request.chat = anthropic::parse_conversation(root, chat_limits, left_out);
    request.left_out = left_out.take();
    // What is appended follows the agent's memory, whose head cannot change any more.
    if (request.append)
        for (const char* first : {"system", "tools"})
            if (auto field = root.find(first))
                field->fail(errc::bad_value,
                            "is at the beginning of the agent's memory and cannot be "
                            "appended");
    parse_template_values(root, request.thinking, request.chat);
    set_tool_use(request, tool_use::when_wanted, true, std::nullopt, root);
    if (!root.ok()) return;
    parse_prompt_end(root, request.max_tokens > 0 ? last_answer::goes_on : last_answer::is_history,
                     request.form, request.chat);
}

/// Reads the whole request: a raw prompt, or messages where there is none.
generate_request parse_root(const json_cursor& root, const request_limits& limits) {
    generate_request request;
    refuse_foreign_fields(root);
    request.max_tokens =
        parse_max_tokens(root, {"max_tokens", "n_predict"}, limits).value_or(max_tokens_default);
    request.append = flag_at(root, "append");
    request.stream = flag_at(root, "stream");
    request.memory = parse_memory_policy(root, {});
    request.thinking.enabled = flag_at(root, "thinking");
    parse_foreign_forms(root, limits, request);
    if (auto prompt = root.find("prompt"))
        parse_raw_prompt(root, *prompt, request);
    else
        parse_chat(root, limits, request);
    request.stop_sequences = parse_stop(root, limits);
    request.ending = parse_ending(root, request.max_tokens, limits);
    request.sampling = parse_sampling(root, limits, -1);
    return request;
}

/// Returns: why the answer ended, in the words of chat completions. `called`: it has tool calls.
const char* finish_reason(engine::stop_reason why, bool called) {
    const bool is_cut =
        why == engine::stop_reason::max_tokens || why == engine::stop_reason::context_full;
    if (is_cut) return "length";
    return called && why == engine::stop_reason::end_turn ? "tool_calls" : "stop";
}

/// Returns: the fields about the end of the answer. The last token was sampled and not computed, so
/// it is not in the memory yet: cache_size_tokens counts one less.
json::object ending(const engine::finished& event, int prompt_tokens, bool called) {
    json::value sequence;
    if (!event.stop_sequence.empty()) sequence = event.stop_sequence;
    return {{"tokens_generated", event.output_tokens},
            {"finish_reason", finish_reason(event.why, called)},
            {"stop_sequence", std::move(sequence)},
            {"cache_size_tokens", prompt_tokens + std::max(event.output_tokens - 1, 0)}};
}

/// Returns: a tool call with its arguments as JSON.
json::object call_object(const std::string& id, std::string_view name, std::string_view arguments) {
    // A caller has checked the arguments, or the engine has said that they are whole.
    auto input = parse_json(arguments, json_limits{});
    return {{"id", id}, {"name", name}, {"input", input ? std::move(*input) : json::object()}};
}

/// Returns: an event whose data are `fields`, with its name as "type".
std::string event_of(std::string_view name, json::object fields) {
    json::object data{{"type", name}};
    for (auto& [key, value] : fields) data.emplace(key, std::move(value));
    return sse_event(name, to_text(data));
}

}  // namespace

result<generate_request> parse_generate(std::string_view body, const request_limits& limits) {
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return parse_root(root, limits); });
}

std::string generate_stream::on_admitted(const engine::admitted& event) {
    prompt_tokens_ = event.usage.prompt_tokens;
    json::object memory = memory_object(event.agent.str(), event.usage);
    add_left_out(memory, left_out_);
    json::object fields{{"agent_id", event.agent.str()}};
    if (!message_id_.empty()) fields["message_id"] = message_id_;
    fields["semantic"] = std::move(memory);
    return event_of("start", std::move(fields));
}

std::string generate_stream::on_text(std::string_view text) {
    return text.empty() ? std::string() : event_of("token", {{"text", text}});
}

std::string generate_stream::on_thinking(std::string_view text) {
    return text.empty() ? std::string() : event_of("thinking", {{"text", text}});
}

std::string generate_stream::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    called_ = true;
    return event_of("tool_call", call_object(ids_->call_id(), name, *arguments));
}

std::string generate_stream::on_call_begun(std::string_view name) {
    call_id_ = ids_->call_id();
    call_name_ = name;
    call_arguments_.clear();
    return event_of("tool_call_start", {{"id", call_id_}, {"name", call_name_}});
}

std::string generate_stream::on_call_arguments(std::string_view json) {
    if (json.empty()) return {};
    call_arguments_ += json;
    return event_of("tool_call_delta", {{"id", call_id_}, {"input", json}});
}

std::string generate_stream::on_call_ended(bool is_whole) {
    if (!is_whole) return event_of("tool_call_dropped", {{"id", call_id_}});
    called_ = true;
    return event_of("tool_call", call_object(call_id_, call_name_, call_arguments_));
}

std::string generate_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (ended_) return {};
    ended_ = true;
    json::object fields = ending(event, prompt_tokens_, called_);
    add_ending(fields, event);
    return event_of("done", std::move(fields));
}

std::string generate_stream::on_failed(const failure& f) {
    if (ended_) return {};
    ended_ = true;
    return error_event(dialect::native, f, request_id_);
}

std::string generate_stream::ping() const { return ended_ ? std::string() : event_of("ping", {}); }

void generate_collector::on_admitted(const engine::admitted& event) {
    agent_ = event.agent.str();
    usage_ = event.usage;
}

void generate_collector::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    calls_.push_back({ids_->call_id(), std::string(name), std::move(*arguments)});
}

result<std::string> generate_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    json::object body{{"agent_id", agent_}};
    if (!message_id_.empty()) body["message_id"] = message_id_;
    body["text"] = text_;
    if (!thinking_.empty()) body["thinking"] = thinking_;
    if (!calls_.empty()) {
        json::array calls;
        for (const call& one : calls_)
            calls.push_back(call_object(one.id, one.name, one.arguments));
        body["tool_calls"] = std::move(calls);
    }
    for (auto& [key, value] : ending(event, usage_.prompt_tokens, !calls_.empty()))
        body.emplace(key, std::move(value));
    json::object memory = memory_object(agent_, usage_, event);
    add_left_out(memory, left_out_);
    body["semantic"] = std::move(memory);
    return to_text(body);
}

}  // namespace semantic::protocol::agents

// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/message_stream.hpp"

#include <boost/json.hpp>

#include <utility>

#include "protocol/anthropic/summaries.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::anthropic {

namespace json = boost::json;

namespace {

/// The usage in the vendor's fields. Tokens that are stored now count as written to its cache.
json::object usage_object(const engine::prompt_usage& usage, int output_tokens) {
    return {{"input_tokens", usage.recomputed_tokens},
            {"cache_creation_input_tokens", usage.created_tokens},
            {"cache_read_input_tokens", usage.reused_tokens},
            {"cache_creation", json::object{{"ephemeral_5m_input_tokens", usage.created_tokens},
                                            {"ephemeral_1h_input_tokens", 0}}},
            {"output_tokens", output_tokens},
            {"service_tier", "standard"}};
}

/// Returns: why not more of the prompt was in memory, in the vendor's words, which know fewer
/// reasons; null where nothing was missed.
json::object diagnostics_of(const engine::prompt_usage& usage, const reply_options& options) {
    json::value reason;
    switch (usage.why) {
        case engine::miss_reason::none:
            // A conversation that begins cannot have a message before it.
            if (usage.reused_tokens == 0 && !options.previous_message_id.empty())
                reason = json::object{{"type", "previous_message_not_found"}};
            break;
        case engine::miss_reason::model_changed:
        case engine::miss_reason::system_changed:
        case engine::miss_reason::tools_changed:
        case engine::miss_reason::messages_changed:
            reason = json::object{{"type", to_string(usage.why)},
                                  {"cache_missed_input_tokens", usage.created_tokens}};
            break;
        case engine::miss_reason::evicted:
        case engine::miss_reason::corrupt:
        case engine::miss_reason::incompatible:
        case engine::miss_reason::too_short:
            reason = json::object{{"type", "unavailable"}};
            break;
    }
    return {{"cache_miss_reason", std::move(reason)}};
}

/// Returns: the signature of a thinking block, which contains the text where the client hides it.
std::string signature_for(const reply_options& options, std::string_view thinking) {
    return options.hides_thinking ? carrying_signature_of(thinking) : signature_of(thinking);
}

struct stop_fields {
    json::value reason;
    json::value sequence;
};

/// Returns: stop_reason and stop_sequence of a finished answer.
stop_fields stop_of(const engine::finished& event, bool has_tool_calls) {
    switch (event.why) {
        // Only a turn that the model ended itself may say tool_use: a client runs the call then.
        case engine::stop_reason::end_turn:
            return {has_tool_calls ? "tool_use" : "end_turn", nullptr};
        case engine::stop_reason::max_tokens:
            return {"max_tokens", nullptr};
        case engine::stop_reason::stop_sequence:
            if (event.stop_sequence.empty()) return {"stop_sequence", nullptr};
            return {"stop_sequence", json::string(event.stop_sequence)};
        case engine::stop_reason::context_full:
            return {"model_context_window_exceeded", nullptr};
        case engine::stop_reason::cancelled:
        case engine::stop_reason::deadline:
            break;
    }
    return {nullptr, nullptr};
}

std::string event_of(std::string_view name, const json::object& data) {
    return sse_event(name, json::serialize(data));
}

std::string block_start(std::size_t index, json::object block) {
    return event_of(
        "content_block_start",
        {{"type", "content_block_start"}, {"index", index}, {"content_block", std::move(block)}});
}

std::string block_delta(std::size_t index, std::string_view type, std::string_view field,
                        std::string_view text) {
    return event_of("content_block_delta",
                    {{"type", "content_block_delta"},
                     {"index", index},
                     {"delta", json::object{{"type", type}, {field, text}}}});
}

/// Adds the field safeguard_results. For an answer that is still to be judged it says "error",
/// until with_verdicts() replaces it.
void add_safeguards(const reply_options& options, json::object& to) {
    if (options.is_judged)
        to["safeguard_results"] = without_verdicts({}, no_verdict::error);
    else if (!options.safeguard_results.empty())
        to["safeguard_results"] = options.safeguard_results;
}

void add_edits(const reply_options& options, json::object& to) {
    if (options.applied_edits)
        to["context_management"] = json::object{{"applied_edits", *options.applied_edits}};
}

std::string block_stop(std::size_t index) {
    return event_of("content_block_stop", {{"type", "content_block_stop"}, {"index", index}});
}

}  // namespace

message_stream::message_stream(reply_options options, id_maker& ids)
    : options_(std::move(options)), ids_(&ids) {}

std::string message_stream::on_admitted(const engine::admitted& event) {
    if (state_ != state::fresh) return {};
    state_ = state::between_blocks;
    usage_ = event.usage;
    json::object memory = memory_object(event.agent.str(), usage_);
    add_left_out(memory, options_.left_out);
    // The vendor's streams begin with one token of output, too; message_delta has the true count.
    json::object message{{"id", options_.message_id},    {"type", "message"},
                         {"role", "assistant"},          {"model", options_.model},
                         {"content", json::array()},     {"stop_reason", nullptr},
                         {"stop_sequence", nullptr},     {"usage", usage_object(usage_, 1)},
                         {"semantic", std::move(memory)}};
    if (options_.diagnoses) message["diagnostics"] = diagnostics_of(usage_, options_);
    std::string bytes =
        event_of("message_start", {{"type", "message_start"}, {"message", std::move(message)}});
    if (!options_.summary_block.empty()) bytes += whole_summary(options_.summary_block);
    return bytes;
}

std::string message_stream::whole_summary(const json::object& block) {
    json::object begun = block;
    begun["content"] = nullptr;
    std::string bytes = block_start(next_index_, std::move(begun));
    if (const json::string* text = block.at("content").if_string())
        bytes += block_delta(next_index_, "compaction_delta", "content", *text);
    return bytes + block_stop(next_index_++);
}

std::string message_stream::on_text(std::string_view text) {
    if (text.empty()) return {};
    if (options_.compacts) {
        summary_ += text;
        return {};
    }
    if (state_ == state::in_text) return block_delta(next_index_, "text_delta", "text", text);
    // Text within a call, before the start or after the end has no block that it could be in.
    if (state_ != state::between_blocks && state_ != state::in_thinking) return {};
    const std::string whole = space_.text(text, state_ == state::between_blocks && tool_calls_ > 0);
    if (whole.empty()) return {};
    std::string bytes = close_block();
    bytes += block_start(next_index_, {{"type", "text"}, {"text", ""}, {"citations", nullptr}});
    state_ = state::in_text;
    bytes += block_delta(next_index_, "text_delta", "text", whole);
    return bytes;
}

std::string message_stream::on_thinking(std::string_view text) {
    if (text.empty() || !options_.shows_thinking || options_.compacts) return {};
    if (state_ != state::between_blocks && state_ != state::in_text && state_ != state::in_thinking)
        return {};
    std::string bytes;
    if (state_ != state::in_thinking) {
        bytes = close_block();
        space_.drop();
        bytes +=
            block_start(next_index_, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
        state_ = state::in_thinking;
    }
    thinking_ += text;
    if (options_.hides_thinking) return bytes;
    return bytes + block_delta(next_index_, "thinking_delta", "thinking", text);
}

/// Ends the open content block, if any; a thinking block gets its signature first.
std::string message_stream::close_block() {
    std::string bytes;
    if (state_ == state::in_thinking) {
        std::string signature = signature_for(options_, std::exchange(thinking_, {}));
        bytes = block_delta(next_index_, "signature_delta", "signature", signature);
    } else if (state_ != state::in_text && state_ != state::in_call) {
        return bytes;
    }
    state_ = state::between_blocks;
    return bytes + block_stop(next_index_++);
}

std::string message_stream::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    // Arguments that are no JSON object cannot be a block's input; the client sees them as text.
    if (!arguments) return on_text(arguments_json);
    std::string bytes = on_call_begun(name);
    bytes += on_call_arguments(*arguments);
    return bytes + on_call_ended(true);
}

std::string message_stream::on_call_begun(std::string_view name) {
    if (state_ == state::fresh || state_ == state::ended) return {};
    // Calls beyond the most that the client allowed are left out with their arguments.
    if (options_.tool_calls_max && tool_calls_ >= *options_.tool_calls_max) return {};
    std::string bytes = close_block();
    space_.drop();
    state_ = state::in_call;
    open_call_ = {ids_->tool_use_id(), std::string(name), {}};
    return bytes + block_start(next_index_, {{"type", "tool_use"},
                                             {"id", open_call_.id},
                                             {"name", name},
                                             {"input", json::object()}});
}

std::string message_stream::on_call_arguments(std::string_view json) {
    if (state_ != state::in_call || json.empty()) return {};
    if (options_.is_judged) open_call_.arguments_json += json;
    return block_delta(next_index_, "input_json_delta", "partial_json", json);
}

std::string message_stream::on_call_ended(bool is_whole) {
    if (state_ != state::in_call) return {};
    if (is_whole) ++tool_calls_;
    if (is_whole && options_.is_judged) judged_.push_back(std::move(open_call_));
    return close_block();
}

std::string message_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (state_ == state::fresh)
        return on_failed(fail(errc::internal, "the answer ended before it began"));
    if (state_ == state::ended) return {};
    std::string bytes = close_block();
    state_ = state::ended;
    stop_fields stop = stop_of(event, tool_calls_ > 0);
    if (options_.compacts) {
        bytes += whole_summary(compaction_block(summary_, options_.tool_changes));
        stop = {"compaction", nullptr};
    }
    delta_ = {{"stop_reason", stop.reason}, {"stop_sequence", stop.sequence}};
    add_safeguards(options_, delta_);
    finished_ = event;
    const std::string last = ending();
    ending_bytes_ = last.size();
    return bytes + last;
}

/// The events message_delta and message_stop.
std::string message_stream::ending() const {
    json::object memory;
    add_ending(memory, finished_);
    json::object event{
        {"type", "message_delta"},
        {"delta", delta_},
        {"usage", json::object{{"output_tokens", finished_.output_tokens},
                               {"input_tokens", usage_.recomputed_tokens},
                               {"cache_creation_input_tokens", usage_.created_tokens},
                               {"cache_read_input_tokens", usage_.reused_tokens}}},
        {"semantic", std::move(memory)}};
    add_edits(options_, event);
    return event_of("message_delta", event) + event_of("message_stop", {{"type", "message_stop"}});
}

std::string message_stream::with_verdicts(std::string bytes, json::array results) {
    // The caller passes the bytes of on_finished(), whose end is made again with the results.
    if (bytes.size() < ending_bytes_) return bytes;
    bytes.resize(bytes.size() - ending_bytes_);
    delta_["safeguard_results"] = std::move(results);
    return bytes + ending();
}

std::string message_stream::on_failed(const failure& f) {
    if (state_ == state::ended) return {};
    state_ = state::ended;
    return error_event(dialect::anthropic, f, options_.request_id);
}

std::string message_stream::ping() const {
    if (state_ == state::ended) return {};
    return event_of("ping", {{"type", "ping"}});
}

message_collector::message_collector(reply_options options, id_maker& ids)
    : options_(std::move(options)), ids_(&ids) {}

void message_collector::on_admitted(const engine::admitted& event) {
    usage_ = event.usage;
    agent_ = event.agent.str();
}

void message_collector::on_text(std::string_view text) {
    if (text.empty()) return;
    if (options_.compacts) {
        summary_ += text;
        return;
    }
    bool is_open = !blocks_.empty() && blocks_.back().is == kind::text;
    if (is_open) {
        blocks_.back().text += text;
        return;
    }
    bool behind_call = !blocks_.empty() && blocks_.back().is == kind::tool_use;
    block fresh;
    fresh.text = space_.text(text, behind_call);
    if (!fresh.text.empty()) blocks_.push_back(std::move(fresh));
}

void message_collector::on_thinking(std::string_view text) {
    if (text.empty() || !options_.shows_thinking || options_.compacts) return;
    space_.drop();
    if (blocks_.empty() || blocks_.back().is != kind::thinking)
        blocks_.push_back({kind::thinking, {}, {}, {}});
    blocks_.back().text += text;
}

void message_collector::on_tool_call(std::string_view name, std::string_view arguments_json) {
    if (options_.tool_calls_max && tool_calls_ >= *options_.tool_calls_max) return;
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    space_.drop();
    ++tool_calls_;
    blocks_.push_back(
        {kind::tool_use, std::move(*arguments), ids_->tool_use_id(), std::string(name)});
    const block& call = blocks_.back();
    if (options_.is_judged) judged_.push_back({call.id, call.name, call.text});
}

/// The blocks of the answer's content.
json::array message_collector::content() const {
    json::array content;
    if (!options_.summary_block.empty()) content.push_back(options_.summary_block);
    if (options_.compacts) content.push_back(compaction_block(summary_, options_.tool_changes));
    for (const block& part : blocks_) {
        if (part.is == kind::text) {
            content.push_back(json::object{{"type", "text"}, {"text", part.text}});
            continue;
        }
        if (part.is == kind::thinking) {
            content.push_back(json::object{{"type", "thinking"},
                                           {"thinking", options_.hides_thinking ? "" : part.text},
                                           {"signature", signature_for(options_, part.text)}});
            continue;
        }
        auto input = parse_json(part.text, json_limits{});
        content.push_back(json::object{{"type", "tool_use"},
                                       {"id", part.id},
                                       {"name", part.name},
                                       {"input", input ? std::move(*input) : json::object()}});
    }
    return content;
}

result<std::string> message_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    stop_fields stop = stop_of(event, tool_calls_ > 0);
    if (options_.compacts) stop = {"compaction", nullptr};
    json::object memory = memory_object(agent_, usage_, event);
    add_left_out(memory, options_.left_out);
    json::object message{{"id", options_.message_id},
                         {"type", "message"},
                         {"role", "assistant"},
                         {"model", options_.model},
                         {"content", content()},
                         {"stop_reason", stop.reason},
                         {"stop_sequence", stop.sequence},
                         {"usage", usage_object(usage_, event.output_tokens)},
                         {"semantic", std::move(memory)}};
    if (options_.diagnoses) message["diagnostics"] = diagnostics_of(usage_, options_);
    add_edits(options_, message);
    add_safeguards(options_, message);
    message_ = std::move(message);
    // Not json::serialize: the numbers in a tool's input keep their plain form.
    return to_text(message_);
}

std::string message_collector::with_verdicts(json::array results) {
    message_["safeguard_results"] = std::move(results);
    return to_text(message_);
}

}  // namespace semantic::protocol::anthropic

// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/response_stream.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

#include "protocol/openai/text_tools.hpp"
#include "protocol/openai/token_scores.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/responses/compaction.hpp"
#include "protocol/responses/tool_list.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

/// Whether a limit ended the answer.
bool is_cut(engine::stop_reason why) {
    return why == engine::stop_reason::max_tokens || why == engine::stop_reason::context_full;
}

/// The arguments of a finished call as JSON; an empty object where they are not JSON.
json::value arguments_of(std::string_view text) {
    auto parsed = parse_json(text, json_limits{});
    return parsed ? *std::move(parsed) : json::object();
}

}  // namespace

json::object usage_object(const engine::prompt_usage& usage, int output_tokens,
                          int thinking_tokens) {
    return {{"input_tokens", usage.prompt_tokens},
            {"input_tokens_details", json::object{{"cache_write_tokens", usage.created_tokens},
                                                  {"cached_tokens", usage.reused_tokens}}},
            {"output_tokens", output_tokens},
            {"output_tokens_details", json::object{{"reasoning_tokens", thinking_tokens}}},
            {"total_tokens", usage.prompt_tokens + output_tokens}};
}

response_stream::response_stream(reply_options options, id_maker& ids)
    : options_(std::move(options)), ids_(&ids) {}

std::string response_stream::send(std::string_view type, json::object fields) {
    json::object event{{"type", type}, {"sequence_number", sequence_++}};
    for (auto& field : fields) event.emplace(field.key(), std::move(field.value()));
    return sse_event(type, to_text(std::move(event)));
}

std::string response_stream::send_response(std::initializer_list<std::string_view> types) {
    const std::string shown = to_text(response_);
    std::string bytes;
    for (const std::string_view type : types) {
        std::string data = R"({"type":")";
        data.append(type).append(R"(","sequence_number":)").append(std::to_string(sequence_++));
        data.append(R"(,"response":)").append(shown).append("}");
        bytes += sse_event(type, data);
    }
    return bytes;
}

/// Sends the last event, which not_kept() may have to send again.
std::string response_stream::end(std::string_view type) {
    state_ = state::ended;
    std::string bytes = send_response({type});
    last_type_ = type;
    last_bytes_ = bytes.size();
    return bytes;
}

std::string response_stream::of_item(std::string_view type, json::object fields) {
    fields["item_id"] = open_->id;
    fields["output_index"] = output_.size();
    return send(type, std::move(fields));
}

std::string response_stream::of_part(std::string_view type, json::object fields) {
    fields["content_index"] = 0;
    return of_item(type, std::move(fields));
}

/// Returns: the one part of an item's content.
json::object response_stream::part_of(const item& one) const {
    if (one.type == kind::reasoning) return {{"type", "reasoning_text"}, {"text", one.text}};
    return {{"type", "output_text"},
            {"text", one.text},
            {"annotations", json::array()},
            {"logprobs", one.scores}};
}

/// Returns: an item as JSON; in status "in_progress" without its content.
json::object response_stream::object_of(const item& one, std::string_view status) const {
    const bool has_begun = status != "in_progress";
    json::object object{{"id", one.id}};
    switch (one.type) {
        case kind::message:
            object["type"] = "message";
            object["role"] = "assistant";
            object["content"] = has_begun ? json::array{part_of(one)} : json::array();
            break;
        case kind::reasoning:
            object["type"] = "reasoning";
            object["summary"] = json::array();
            object["content"] = has_begun ? json::array{part_of(one)} : json::array();
            if (options_.seals_reasoning)
                object["encrypted_content"] =
                    has_begun ? json::value(carrying_signature_of(one.text)) : json::value();
            break;
        case kind::search_call:
            object["type"] = "tool_search_call";
            object["call_id"] = one.call_id;
            object["execution"] = "client";
            object["arguments"] = status == "completed" ? arguments_of(one.text) : json::object();
            break;
        case kind::call:
        case kind::text_call:
            object["type"] = one.type == kind::call ? "function_call" : "custom_tool_call";
            object["call_id"] = one.call_id;
            add_names(one, object);
            object[one.type == kind::call ? "arguments" : "input"] =
                one.type == kind::call ? one.text : openai::read_text_input(one.text);
            break;
    }
    object["status"] = status;
    return object;
}

void response_stream::add_names(const item& call, json::object& object) const {
    const spaced_name* spaced = options_.names.find(call.name);
    object["name"] = spaced == nullptr ? call.name : spaced->name;
    if (spaced != nullptr) object["namespace"] = spaced->space;
}

/// Ends the open item and begins a new one.
std::string response_stream::open(item fresh) {
    std::string bytes = close("completed");
    const bool has_part = fresh.type == kind::message || fresh.type == kind::reasoning;
    open_ = std::move(fresh);
    bytes += send("response.output_item.added",
                  {{"output_index", output_.size()}, {"item", object_of(*open_, "in_progress")}});
    if (has_part) bytes += of_part("response.content_part.added", {{"part", part_of(*open_)}});
    return bytes;
}

std::string response_stream::end_arguments() {
    if (open_->type == kind::search_call) return {};
    if (open_->type == kind::call) {
        json::object fields;
        add_names(*open_, fields);
        fields["arguments"] = open_->text;
        return of_item("response.function_call_arguments.done", std::move(fields));
    }
    const std::string input = openai::read_text_input(open_->text);
    std::string bytes;
    if (!input.empty())
        bytes = of_item("response.custom_tool_call_input.delta", {{"delta", input}});
    return bytes + of_item("response.custom_tool_call_input.done", {{"input", input}});
}

std::string response_stream::add_compaction(std::string_view summary, bool replaces_all) {
    const json::object made{{"id", ids_->make("cmp_")},
                            {"type", "compaction"},
                            {"encrypted_content", seal_summary(summary, replaces_all)}};
    std::string bytes =
        send("response.output_item.added", {{"output_index", output_.size()}, {"item", made}});
    bytes += send("response.output_item.done", {{"output_index", output_.size()}, {"item", made}});
    output_.push_back(made);
    return bytes;
}

std::string response_stream::close(std::string_view status) {
    if (!open_) return {};
    std::string bytes;
    if (open_->type == kind::message || open_->type == kind::reasoning) {
        const bool is_text = open_->type == kind::message;
        json::object said{{"text", open_->text}};
        if (is_text) said["logprobs"] = open_->scores;
        bytes = of_part(is_text ? "response.output_text.done" : "response.reasoning_text.done",
                        std::move(said));
        bytes += of_part("response.content_part.done", {{"part", part_of(*open_)}});
    } else if (status == "completed") {
        bytes = end_arguments();
    }
    json::object whole = object_of(*open_, status);
    bytes += send("response.output_item.done", {{"output_index", output_.size()}, {"item", whole}});
    output_.push_back(std::move(whole));
    open_.reset();
    return bytes;
}

/// Makes the response object, without output.
void response_stream::begin(std::string_view status) {
    response_ = {{"id", options_.response_id},
                 {"object", "response"},
                 {"created_at", options_.created_unix},
                 {"status", status},
                 {"background", options_.in_background},
                 {"conversation", options_.conversation},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"model", options_.model},
                 {"output", json::array()},
                 {"usage", nullptr}};
    // Moved out, since a response begins once.
    for (auto& field : options_.repeated) response_.emplace(field.key(), std::move(field.value()));
}

std::string response_stream::on_queued() {
    if (state_ != state::fresh || is_queued_) return {};
    is_queued_ = true;
    begin("queued");
    return send_response({"response.created", "response.queued"});
}

std::string response_stream::on_admitted(const engine::admitted& event) {
    if (state_ != state::fresh) return {};
    state_ = state::open;
    usage_ = event.usage;
    agent_ = event.agent.str();
    if (!is_queued_) begin("in_progress");
    response_["status"] = "in_progress";
    json::object memory = memory_object(agent_, usage_);
    add_left_out(memory, options_.left_out);
    response_["semantic"] = std::move(memory);
    if (options_.compared)
        response_["prompt_cache_diagnostics"] = diagnostics_of(*options_.compared, usage_);
    std::string bytes = is_queued_ ? send_response({"response.in_progress"})
                                   : send_response({"response.created", "response.in_progress"});
    if (!replacing_summary_.empty()) bytes += add_compaction(replacing_summary_, true);
    return bytes;
}

void response_stream::on_scores(std::span<const engine::token_scores> scores) {
    openai::append_scores(scores_, scores);
}

/// Shows a piece of the answer, in a new message unless one is open. White space after a call waits
/// until text follows.
std::string response_stream::on_text(std::string_view text) {
    if (state_ != state::open) return {};
    if (options_.compacts) {
        summary_ += text;
        return {};
    }
    const std::string shown = space_.text(text, is_behind_call_);
    if (shown.empty()) return {};
    is_behind_call_ = false;
    std::string bytes;
    if (!is_open(kind::message)) bytes = open({kind::message, ids_->message_id(), {}});
    json::array scores = std::exchange(scores_, {});
    open_->text += shown;
    open_->scores.insert(open_->scores.end(), scores.begin(), scores.end());
    return bytes + of_part("response.output_text.delta",
                           {{"delta", shown}, {"logprobs", std::move(scores)}});
}

std::string response_stream::on_thinking(std::string_view text) {
    if (state_ != state::open || text.empty()) return {};
    ++thinking_tokens_;
    // The reasoning before a summary is counted and not shown.
    if (options_.compacts) return {};
    space_.drop();
    std::string bytes;
    if (!is_open(kind::reasoning)) bytes = open({kind::reasoning, ids_->make("rs_"), {}});
    open_->text += text;
    return bytes + of_part("response.reasoning_text.delta", {{"delta", text}});
}

std::string response_stream::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments) return on_text(arguments_json);
    std::string bytes = on_call_begun(name);
    bytes += on_call_arguments(*arguments);
    return bytes + on_call_ended(true);
}

std::string response_stream::on_call_begun(std::string_view name) {
    if (state_ != state::open) return {};
    // No call is open then, so that on_call_arguments() leaves its arguments out, too.
    if (options_.tool_calls_max && calls_ >= *options_.tool_calls_max) return {};
    const bool takes_text = options_.text_tools.contains(std::string(name));
    space_.drop();
    is_behind_call_ = true;
    if (options_.searches_tools && name == search_tool_name)
        return open(
            {kind::search_call, ids_->make("tsc_"), {}, std::string(name), ids_->call_id()});
    return open({takes_text ? kind::text_call : kind::call,
                 ids_->make(takes_text ? "ctc_" : "fc_"),
                 {},
                 std::string(name),
                 ids_->call_id()});
}

std::string response_stream::on_call_arguments(std::string_view json) {
    if (state_ != state::open || !has_open_call() || json.empty()) return {};
    open_->text += json;
    // The input of a tool that takes a text is sent when its JSON string is complete, and a search
    // has its arguments as an object: neither is sent in pieces.
    if (open_->type != kind::call) return {};
    return of_item("response.function_call_arguments.delta", {{"delta", json}});
}

std::string response_stream::on_call_ended(bool is_whole) {
    if (state_ != state::open || !has_open_call()) return {};
    // A call that was cut off does not count against tool_calls_max.
    calls_ += is_whole ? 1 : 0;
    return close(is_whole ? "completed" : "incomplete");
}

std::string response_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (state_ == state::fresh)
        return on_failed(fail(errc::internal, "the answer ended before it began"));
    if (state_ == state::ended) return {};
    if (options_.compacts && is_white_space(summary_))
        return on_failed(fail(errc::internal, "the model gave no summary of the conversation"));
    // A summary that was cut off by its limit counts as complete.
    const bool cut = options_.is_answer && !options_.compacts && is_cut(event.why);
    const char* status = cut ? "incomplete" : "completed";
    std::string bytes;
    if (options_.compacts) bytes = add_compaction(summary_, false);
    // An empty answer is a message without text: clients read one.
    if (options_.is_answer && output_.empty() && !open_)
        bytes = open({kind::message, ids_->message_id(), {}});
    bytes += close(status);
    response_["status"] = status;
    response_["output"] = std::move(output_);
    if (cut) response_["incomplete_details"] = json::object{{"reason", "max_output_tokens"}};
    response_["usage"] = usage_object(usage_, event.output_tokens, thinking_tokens_);
    add_ending(response_["semantic"].as_object(), event);
    return bytes + end(cut ? "response.incomplete" : "response.completed");
}

std::string response_stream::on_failed(const failure& f) {
    if (state_ == state::ended) return {};
    const bool has_begun = state_ == state::open || is_queued_;
    state_ = state::ended;
    json::object error = openai_error(f);
    if (!has_begun) return send("error", std::move(error));
    // An open item is dropped: it never became whole.
    response_["status"] = "failed";
    response_["output"] = std::move(output_);
    // Clients recognise a prompt that is too long by its code, and shorten it.
    json::value code = f.code == errc::prompt_too_long ? error.at("code") : json::value();
    if (code.is_null())
        code = f.code == errc::rate_limited ? "rate_limit_exceeded" : "server_error";
    response_["error"] = json::object{{"code", std::move(code)}, {"message", error.at("message")}};
    return end("response.failed");
}

std::string response_stream::on_cancelled() {
    if (state_ == state::ended || !(state_ == state::open || is_queued_)) return {};
    std::string bytes = close("incomplete");
    response_["status"] = "cancelled";
    response_["output"] = std::move(output_);
    return bytes + end("response.incomplete");
}

std::string response_stream::not_kept(std::string bytes) {
    if (state_ != state::ended) return bytes;
    response_["store"] = false;
    // The last event was not sent as a part of `bytes`: nothing can be corrected there.
    if (bytes.size() < last_bytes_) return bytes;
    bytes.resize(bytes.size() - last_bytes_);
    // The event is sent again under its number.
    --sequence_;
    return bytes + end(last_type_);
}

std::string response_stream::ping() const {
    if (state_ == state::ended) return {};
    return sse_comment("ping");
}

result<std::string> response_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    // The events are not needed: the response has what they say.
    stream_.on_finished(event);
    return to_text(stream_.response());
}

// The body is made again from the response, so the one that was made is dropped.
std::string response_collector::not_kept(std::string) {
    stream_.not_kept({});
    return to_text(stream_.response());
}

}  // namespace semantic::protocol::responses

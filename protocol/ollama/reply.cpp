// SPDX-License-Identifier: Apache-2.0
#include "protocol/ollama/reply.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

#include "protocol/reply_parts.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/time_text.hpp"

namespace semantic::protocol::ollama {

namespace json = boost::json;
using std::chrono::system_clock;

namespace {

/// Returns: the fields of a line up to those that say how the answer ended.
json::object line_of(const reply_options& options, std::string_view text, std::string_view thinking,
                     json::array calls) {
    json::object line{{"model", options.model}, {"created_at", time_text(options.now())}};
    if (options.kind == reply_kind::generate) {
        line["response"] = text;
        if (!thinking.empty()) line["thinking"] = thinking;
        return line;
    }
    json::object message{{"role", "assistant"}, {"content", text}};
    if (!thinking.empty()) message["thinking"] = thinking;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    line["message"] = std::move(message);
    return line;
}

std::string finished_line(json::object line) { return to_text(std::move(line)) + "\n"; }

/// Returns: a line that is not the last one.
std::string open_line(const reply_options& options, std::string_view text,
                      std::string_view thinking, json::array calls) {
    json::object line = line_of(options, text, thinking, std::move(calls));
    line["done"] = false;
    return finished_line(std::move(line));
}

/// Returns: a tool call. `arguments`: compact JSON.
json::object call_object(std::string id, std::size_t index, std::string_view name,
                         std::string_view arguments) {
    auto parsed = parse_json(arguments, json_limits{});
    json::object function{{"index", index},
                          {"name", name},
                          {"arguments", parsed ? std::move(*parsed) : json::value(json::object())}};
    return {{"id", std::move(id)}, {"function", std::move(function)}};
}

/// Returns: a list with this one call.
json::array only(json::object call) {
    json::array calls;
    calls.push_back(std::move(call));
    return calls;
}

const char* done_reason(engine::stop_reason why) {
    const bool is_cut =
        why == engine::stop_reason::max_tokens || why == engine::stop_reason::context_full;
    return is_cut ? "length" : "stop";
}

std::int64_t nanoseconds(system_clock::duration time) {
    return std::max<std::int64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(), 0);
}

}  // namespace

std::string empty_reply(const reply_options& options) {
    json::object line = line_of(options, {}, {}, {});
    line["done"] = true;
    line["done_reason"] = "load";
    return to_text(std::move(line));
}

void answer_times::on_admitted(const engine::admitted& event) {
    agent_ = event.agent.str();
    usage_ = event.usage;
    admitted_at_ = options_->now();
}

void answer_times::on_output() {
    if (first_at_ == system_clock::time_point()) first_at_ = options_->now();
}

void answer_times::add_end(json::object& line, const engine::finished& event) const {
    const auto now = options_->now();
    const auto read_until = first_at_ == system_clock::time_point() ? now : first_at_;
    line["done"] = true;
    line["done_reason"] = done_reason(event.why);
    line["total_duration"] = nanoseconds(now - options_->asked_at);
    // Time for loading is not measured apart: where there was any, it is in total_duration.
    line["load_duration"] = 0;
    line["prompt_eval_count"] = usage_.prompt_tokens;
    line["prompt_eval_duration"] = nanoseconds(read_until - admitted_at_);
    line["eval_count"] = event.output_tokens;
    line["eval_duration"] = nanoseconds(now - read_until);
    json::object memory = memory_object(agent_, usage_, event);
    add_left_out(memory, options_->left_out);
    line["semantic"] = std::move(memory);
}

answer_stream::answer_stream(reply_options options, id_maker& ids)
    : options_(std::move(options)), ids_(&ids), times_(options_) {}

std::string answer_stream::on_admitted(const engine::admitted& event) {
    times_.on_admitted(event);
    return {};
}

std::string answer_stream::on_text(std::string_view text) {
    if (ended_ || text.empty()) return {};
    times_.on_output();
    return open_line(options_, text, {}, {});
}

std::string answer_stream::on_thinking(std::string_view text) {
    if (ended_ || text.empty()) return {};
    times_.on_output();
    return open_line(options_, {}, text, {});
}

std::string answer_stream::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    // /api/generate has no field for calls, so there they are text.
    if (!arguments || options_.kind == reply_kind::generate) return on_text(arguments_json);
    if (ended_) return {};
    times_.on_output();
    return open_line(options_, {}, {},
                     only(call_object(ids_->call_id(), calls_++, name, *arguments)));
}

std::string answer_stream::on_call_begun(std::string_view name) {
    times_.on_output();
    call_name_ = name;
    call_arguments_.clear();
    return {};
}

std::string answer_stream::on_call_arguments(std::string_view json) {
    call_arguments_ += json;
    return {};
}

std::string answer_stream::on_call_ended(bool is_whole) {
    return is_whole ? on_tool_call(call_name_, call_arguments_) : std::string();
}

std::string answer_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (std::exchange(ended_, true)) return {};
    json::object line = line_of(options_, {}, {}, {});
    times_.add_end(line, event);
    return finished_line(std::move(line));
}

std::string answer_stream::on_failed(const failure& f) {
    if (std::exchange(ended_, true)) return {};
    return error_body(dialect::ollama, f, {}) + "\n";
}

std::string answer_stream::ping() const {
    // A line with an empty text, which clients append without effect.
    return ended_ ? std::string() : open_line(options_, {}, {}, {});
}

answer_collector::answer_collector(reply_options options, id_maker& ids)
    : options_(std::move(options)), ids_(&ids), times_(options_) {}

void answer_collector::on_admitted(const engine::admitted& event) { times_.on_admitted(event); }

void answer_collector::on_text(std::string_view text) {
    times_.on_output();
    text_ += text;
}

void answer_collector::on_thinking(std::string_view text) {
    times_.on_output();
    thinking_ += text;
}

void answer_collector::on_tool_call(std::string_view name, std::string_view arguments_json) {
    auto arguments = checked_arguments(arguments_json);
    if (!arguments || options_.kind == reply_kind::generate) return on_text(arguments_json);
    times_.on_output();
    calls_.push_back(call_object(ids_->call_id(), calls_.size(), name, *arguments));
}

result<std::string> answer_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    json::object line = line_of(options_, text_, thinking_, std::move(calls_));
    times_.add_end(line, event);
    return to_text(std::move(line));
}

}  // namespace semantic::protocol::ollama

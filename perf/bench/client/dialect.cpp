// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/dialect.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

namespace json = boost::json;

const json::object* find_object(const json::object& fields, std::string_view key) {
    const json::value* found = fields.if_contains(key);
    return found == nullptr ? nullptr : found->if_object();
}

std::string_view find_text(const json::object& fields, std::string_view key) {
    const json::value* found = fields.if_contains(key);
    const json::string* text = found == nullptr ? nullptr : found->if_string();
    return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
}

/// A field's number that is not negative; nothing where it is missing or none.
std::optional<std::int64_t> find_count(const json::object& fields, std::string_view key) {
    const json::value* found = fields.if_contains(key);
    if (found == nullptr || !found->is_number()) return std::nullopt;
    boost::system::error_code error;
    const auto count = found->to_number<std::int64_t>(error);
    if (error || count < 0) return std::nullopt;
    return count;
}

/// Parses a JSON object. `subject` names it in the error. Errors: server_error.
json::object parse_object(std::string_view text, const char* subject) {
    boost::system::error_code error;
    json::value parsed = json::parse(json::string_view(text.data(), text.size()), error);
    if (error || !parsed.is_object()) {
        throw server_error(std::string("the server sent no JSON object as ") + subject + ": " +
                           std::string(text.substr(0, 200)));
    }
    return std::move(parsed.as_object());
}

json::array message_array(const std::vector<message>& messages) {
    json::array array;
    for (const message& m : messages) {
        array.push_back(json::object{{"role", m.role}, {"content", m.text}});
    }
    return array;
}

[[noreturn]] void fail_with(const json::object& error) {
    std::string message(find_text(error, "message"));
    if (message.empty()) message = json::serialize(error);
    throw server_error("the server ended the stream with an error: " + message);
}

}  // namespace

std::string_view name_of(api dialect) { return dialect == api::anthropic ? "anthropic" : "openai"; }

double generation::decode_speed() const {
    const double seconds = last_s - first_s;
    // A token that ended the answer was counted but brought no text, so its time is not known.
    const bool silent_end = output_tokens == static_cast<std::int64_t>(content_s.size()) + 1;
    const std::int64_t timed = output_tokens - (silent_end ? 1 : 0);
    if (timed < 2 || seconds <= 0) return 0;
    return static_cast<double>(timed - 1) / seconds;
}

std::vector<double> generation::gaps() const {
    std::vector<double> gaps;
    for (std::size_t i = 1; i < content_s.size(); ++i) {
        gaps.push_back(content_s[i] - content_s[i - 1]);
    }
    return gaps;
}

std::string_view chat_path(api dialect) {
    return dialect == api::anthropic ? "/v1/messages" : "/v1/chat/completions";
}

std::string chat_body(api dialect, const std::string& model, const generation_request& request,
                      const json::object& extra) {
    json::object body{{"model", model},
                      {"max_tokens", request.max_tokens},
                      {"temperature", 0},
                      {"stream", true},
                      {"messages", message_array(request.messages)}};
    if (dialect == api::openai) {
        body["stream_options"] = json::object{{"include_usage", true}};
        body["session_id"] = request.session;
        body["ignore_eos"] = true;
    }
    for (const auto& [key, value] : extra) body[key] = value;
    return json::serialize(body);
}

std::string count_tokens_body(const std::string& model, const std::vector<message>& messages) {
    return json::serialize(json::object{{"model", model}, {"messages", message_array(messages)}});
}

std::string agent_of(api dialect, const std::string& session) {
    return (dialect == api::anthropic ? "sess_" : "oai_") + session;
}

void stream_reader::on_event(const sse_event& event, double seconds) {
    if (api_ == api::openai && event.data.starts_with("[DONE]")) {
        ended_ = true;
        return;
    }
    if (event.name == "ping") return;
    const json::object data = parse_object(event.data, "a stream event");
    if (const json::object* error = find_object(data, "error")) fail_with(*error);
    if (api_ == api::anthropic) {
        on_anthropic(data, seconds);
    } else {
        on_openai(data, seconds);
    }
}

/// Reads an event of the Messages API.
void stream_reader::on_anthropic(const json::object& event, double seconds) {
    const std::string_view type = find_text(event, "type");
    if (type == "content_block_delta") {
        const json::object* delta = find_object(event, "delta");
        if (delta == nullptr) return;
        for (const char* key : {"text", "thinking", "partial_json"}) {
            on_content(find_text(*delta, key), seconds);
        }
    } else if (type == "message_start") {
        const json::object* message = find_object(event, "message");
        const json::object* usage = message == nullptr ? nullptr : find_object(*message, "usage");
        if (usage != nullptr) read_anthropic_usage(*usage);
    } else if (type == "message_delta") {
        if (const json::object* usage = find_object(event, "usage")) read_anthropic_usage(*usage);
        if (const json::object* delta = find_object(event, "delta")) {
            result_.stop_reason = find_text(*delta, "stop_reason");
        }
    } else if (type == "message_stop") {
        ended_ = true;
    }
}

/// Reads a chunk of chat completions.
void stream_reader::on_openai(const json::object& chunk, double seconds) {
    if (const json::object* usage = find_object(chunk, "usage")) read_openai_usage(*usage);
    if (const json::object* timings = find_object(chunk, "timings")) {
        // llama.cpp puts here what older versions leave out of usage.
        if (const auto cached = find_count(*timings, "cache_n");
            cached && !result_.cached_reported) {
            result_.cached_tokens = *cached;
            result_.cached_reported = true;
        }
    }
    const json::value* choices = chunk.if_contains("choices");
    if (choices == nullptr || !choices->is_array() || choices->as_array().empty()) return;
    const json::object* choice = choices->as_array().front().if_object();
    if (choice == nullptr) return;
    if (const json::object* delta = find_object(*choice, "delta")) {
        for (const char* key : {"content", "reasoning_content", "reasoning"}) {
            on_content(find_text(*delta, key), seconds);
        }
    }
    const std::string_view reason = find_text(*choice, "finish_reason");
    if (!reason.empty()) result_.stop_reason = reason;
}

void stream_reader::on_content(std::string_view text, double seconds) {
    if (text.empty()) return;
    result_.content_s.push_back(seconds);
    result_.text += text;
}

/// Reads usage. Anthropic counts new, stored and reused tokens of a prompt separately.
void stream_reader::read_anthropic_usage(const json::object& usage) {
    // Each number replaces the one before it; absent ones stay.
    has_usage_ = true;
    if (const auto n = find_count(usage, "input_tokens")) input_ = *n;
    if (const auto n = find_count(usage, "cache_creation_input_tokens")) created_ = *n;
    if (const auto n = find_count(usage, "cache_read_input_tokens")) {
        result_.cached_tokens = *n;
        result_.cached_reported = true;
    }
    if (const auto n = find_count(usage, "output_tokens")) result_.output_tokens = *n;
    result_.prompt_tokens = input_ + created_ + result_.cached_tokens;
}

/// Reads usage. OpenAI counts the whole prompt, and reused tokens as a part of it.
void stream_reader::read_openai_usage(const json::object& usage) {
    has_usage_ = true;
    if (const auto n = find_count(usage, "prompt_tokens")) result_.prompt_tokens = *n;
    if (const auto n = find_count(usage, "completion_tokens")) result_.output_tokens = *n;
    if (const json::object* details = find_object(usage, "prompt_tokens_details")) {
        if (const auto n = find_count(*details, "cached_tokens")) {
            result_.cached_tokens = *n;
            result_.cached_reported = true;
        }
    }
}

generation stream_reader::finish(double seconds) {
    // A stream of the OpenAI kind may end without [DONE]; the finish reason is its end then.
    if (!ended_ && (api_ == api::anthropic || result_.stop_reason.empty())) {
        throw server_error("the server closed the stream before the answer's end");
    }
    if (!has_usage_) {
        throw server_error("the server told no usage: tokens cannot be counted");
    }
    result_.end_s = seconds;
    result_.first_s = result_.content_s.empty() ? seconds : result_.content_s.front();
    result_.last_s = result_.content_s.empty() ? seconds : result_.content_s.back();
    return std::move(result_);
}

std::optional<model_info> read_models(std::string_view body, const std::string& wanted) {
    boost::system::error_code error;
    const json::value parsed = json::parse(json::string_view(body.data(), body.size()), error);
    if (error || !parsed.is_object()) return std::nullopt;
    const json::value* data = parsed.as_object().if_contains("data");
    if (data == nullptr || !data->is_array()) return std::nullopt;
    std::optional<model_info> chosen;
    for (const json::value& entry : data->as_array()) {
        const json::object* model = entry.if_object();
        if (model == nullptr) continue;
        model_info info{std::string(find_text(*model, "id")), std::nullopt};
        for (const char* key : {"max_input_tokens", "max_model_len", "context_length"}) {
            if (!info.context_max) info.context_max = find_count(*model, key);
        }
        if (const json::object* meta = find_object(*model, "meta"); meta && !info.context_max) {
            info.context_max = find_count(*meta, "n_ctx");
        }
        if (!chosen || info.id == wanted) chosen = info;
        if (info.id == wanted) break;
    }
    return chosen;
}

std::optional<double> read_metric(std::string_view text, std::string_view metric,
                                  std::string_view label) {
    std::optional<double> sum;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (!line.starts_with(metric)) continue;
        line.remove_prefix(metric.size());
        if (!line.starts_with('{') && !line.starts_with(' ')) continue;
        std::string_view labels;
        if (line.front() == '{') {
            const auto close = line.find('}');
            if (close == line.npos) continue;
            labels = line.substr(1, close - 1);
            line.remove_prefix(close + 1);
        }
        if (labels.find(label) == labels.npos) continue;
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        double value = 0;
        const auto [last, error] = std::from_chars(line.data(), line.data() + line.size(), value);
        if (error == std::errc()) sum = sum.value_or(0) + value;
    }
    return sum;
}

}  // namespace semantic::bench

// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/completions.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/openai/reply_fields.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/memory_wishes.hpp"
#include "protocol/wire/sse.hpp"

namespace semantic::protocol::openai {

namespace json = boost::json;

namespace {

// The vendor's number.
constexpr int max_tokens_default = 16;
constexpr int top_scores_max = 5;  // as the vendor has it for this API

/// Reads the prompt: a string or a list of one.
std::string parse_prompt(const json_cursor& root) {
    json_cursor prompt = root.at("prompt");
    if (prompt.value().is_array() && !prompt.as_array().empty()) {
        if (prompt.as_array().size() > 1 && prompt.as_array().front().is_string())
            prompt.fail(errc::unsupported, "one prompt a request is answered");
        // In a list of token ids this is a number, which is refused next.
        prompt = prompt.item(0);
    }
    if (prompt.value().is_number() || prompt.value().is_array())
        prompt.fail(errc::unsupported, "one prompt is taken, as text and not as token ids");
    const std::string_view text = prompt.as_string();
    if (text.empty()) prompt.fail(errc::bad_value, "must not be empty");
    return std::string(text);
}

std::optional<int> parse_top_scores(const json_cursor& root) {
    auto field = root.find("logprobs");
    if (!field) return std::nullopt;
    return static_cast<int>(field->as_integer(0, top_scores_max));
}

/// Reads the whole request.
completion_request parse_completion_root(const json_cursor& root, const chat_limits& limits) {
    completion_request request;
    request.model = bounded_at(root, "model", limits.id_bytes_max);
    refuse_foreign_fields(root);
    refuse_field(root, "suffix", "this server continues texts; it does not fill them in");
    request.prompt = parse_prompt(root);
    request.max_tokens =
        parse_max_tokens(root, {"max_tokens", "n_predict"}, limits).value_or(max_tokens_default);
    if (auto field = root.find("stop")) request.stop_sequences = parse_stops(*field, limits);
    request.ending = parse_ending(root, request.max_tokens, limits);
    request.sampling = parse_sampling(root, limits, std::numeric_limits<std::int64_t>::min());
    request.top_scores = parse_top_scores(root);
    if (auto field = root.find("n"))
        request.choices = static_cast<int>(field->as_integer(1, limits.choices_max));
    request.stream = flag_at(root, "stream");
    request.memory = parse_memory_policy(root, parse_prompt_cache_options(root));
    if (auto options = root.find("stream_options")) {
        options->as_object();
        request.include_usage = flag_at(*options, "include_usage");
    }
    parse_foreign_forms(root, limits, request);
    return request;
}

/// Returns: the fields at the beginning of each chunk or body.
json::object head_of(const reply_options& options) {
    return {{"id", options.completion_id},
            {"object", "text_completion"},
            {"created", options.created_unix},
            {"model", options.model},
            {"system_fingerprint", options.system_fingerprint}};
}

json::object choice_object(std::size_t index, std::string_view text, json::value scores,
                           json::value reason) {
    return {{"index", index},
            {"text", text},
            {"logprobs", std::move(scores)},
            {"finish_reason", std::move(reason)}};
}

/// One event of the stream. `memory`: what this server adds about the agent; null: nothing.
std::string completion_chunk(const reply_options& options, json::array choices, json::value usage,
                             json::value memory = nullptr) {
    json::object chunk = head_of(options);
    chunk["choices"] = std::move(choices);
    if (options.include_usage) chunk["usage"] = std::move(usage);
    if (!memory.is_null()) chunk["semantic"] = std::move(memory);
    return sse_event("", to_text(std::move(chunk)));
}

}  // namespace

engine::generation_request completion_request::take_generation(
    std::optional<storage::agent_id> named,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
    engine::generation_request wanted = answer_request::take_generation(std::move(named), deadline);
    wanted.text = std::move(prompt);
    return wanted;
}

result<completion_request> parse_completion(std::string_view body, const chat_limits& limits) {
    return read_object(body, limits.json, [&](const json_cursor& root) {
        return parse_completion_root(root, limits);
    });
}

void older_scores::add(std::span<const engine::token_scores> scores) {
    for (const engine::token_scores& one : scores) {
        tokens_.push_back(json::string(one.chosen.text));
        chosen_.push_back(one.chosen.log_probability);
        json::object top;
        // The vendor's form is an object, so of two tokens with the same text one is shown.
        for (const engine::scored_token& each : one.top) top[each.text] = each.log_probability;
        top_.push_back(std::move(top));
        offsets_.push_back(offset_);
        offset_ += one.chosen.bytes.size();
    }
}

json::value older_scores::take() {
    if (tokens_.empty()) return nullptr;
    return json::object{{"tokens", std::exchange(tokens_, {})},
                        {"token_logprobs", std::exchange(chosen_, {})},
                        {"top_logprobs", std::exchange(top_, {})},
                        {"text_offset", std::exchange(offsets_, {})}};
}

completion_stream::completion_stream(reply_options options)
    : options_(std::move(options)), scores_(static_cast<std::size_t>(options_.choices)) {}

std::string completion_stream::on_admitted(const engine::admitted& event) {
    usage_ = event.usage;
    agent_ = event.agent.str();
    return {};
}

void completion_stream::on_choice(int choice) { current_ = static_cast<std::size_t>(choice); }

void completion_stream::on_scores(std::span<const engine::token_scores> scores) {
    scores_[current_].add(scores);
}

std::string completion_stream::on_text(std::string_view text) {
    if (ended_ || text.empty()) return {};
    return completion_chunk(
        options_, {choice_object(current_, text, scores_[current_].take(), nullptr)}, nullptr);
}

std::string completion_stream::on_choice_finished(const engine::choice_finished& event) {
    // The first choice ends with the whole answer, in on_finished().
    if (ended_ || event.choice == 0) return {};
    const auto index = static_cast<std::size_t>(event.choice);
    return completion_chunk(
        options_, {choice_object(index, {}, nullptr, finish_reason(event.why, false))}, nullptr);
}

std::string completion_stream::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return on_failed(*f);
    if (std::exchange(ended_, true)) return {};
    std::string bytes =
        completion_chunk(options_, {choice_object(0, {}, nullptr, finish_reason(event.why, false))},
                         nullptr, memory_object(agent_, usage_, event));
    if (options_.include_usage)
        bytes += completion_chunk(options_, {}, usage_object(usage_, event, 0));
    return bytes + sse_event("", "[DONE]");
}

std::string completion_stream::on_failed(const failure& f) {
    if (std::exchange(ended_, true)) return {};
    return error_event(dialect::openai, f, {});
}

std::string completion_stream::ping() const { return ended_ ? std::string() : sse_comment("ping"); }

completion_collector::completion_collector(reply_options options)
    : options_(std::move(options)), choices_(static_cast<std::size_t>(options_.choices)) {}

void completion_collector::on_admitted(const engine::admitted& event) {
    usage_ = event.usage;
    agent_ = event.agent.str();
}

void completion_collector::on_scores(std::span<const engine::token_scores> scores) {
    choices_[current_].scores.add(scores);
}

void completion_collector::on_choice_finished(const engine::choice_finished& event) {
    choices_[static_cast<std::size_t>(event.choice)].why = event.why;
}

result<std::string> completion_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    choices_[0].why = event.why;
    json::array choices;
    for (one_choice& one : choices_)
        choices.push_back(choice_object(choices.size(), one.text, one.scores.take(),
                                        finish_reason(one.why, false)));
    json::object body = head_of(options_);
    body["choices"] = std::move(choices);
    body["usage"] = usage_object(usage_, event, 0);
    body["semantic"] = memory_object(agent_, usage_, event);
    return to_text(std::move(body));
}

}  // namespace semantic::protocol::openai

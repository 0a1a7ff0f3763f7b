// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/chat.hpp"

#include <boost/json.hpp>

#include <limits>
#include <string_view>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/openai/chat_messages.hpp"
#include "protocol/openai/common_fields.hpp"
#include "protocol/prompt_form.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/memory_wishes.hpp"
#include "storage/types/hex.hpp"

namespace semantic::protocol::openai {

namespace {

/// Reads response_format.
void parse_response_format(const json_cursor& root, chat_request& request) {
    auto format = root.find("response_format");
    if (!format) return;
    const std::string type = string_at(*format, "type");
    if (type == "text") return;
    if (type == "json_object") {
        // llama.cpp takes a schema here.
        auto schema = format->find("schema");
        if (schema) return set_json_schema(request, *schema, false);
        request.form.what = engine::output_form::kind::json;
        return;
    }
    if (type != "json_schema")
        format->at("type").fail(errc::bad_value,
                                R"(must be "text", "json_object" or "json_schema")");
    const json_cursor described = format->at("json_schema");
    described.as_object();
    const json_cursor schema = described.at("schema");
    set_json_schema(request, schema, flag_at(described, "strict"));
}

/// Refuses answers in a form other than text.
void refuse_modalities(const json_cursor& root) {
    if (auto audio = root.find("audio")) audio->fail(errc::unsupported, "audio is not supported");
    auto list = root.find("modalities");
    const std::size_t count =
        list ? parse_count(*list, std::numeric_limits<std::size_t>::max()) : 0;
    for (std::size_t i = 0; i < count; ++i)
        if (const json_cursor item = list->item(i); item.as_string() != "text")
            item.fail(errc::unsupported,
                      "only \"text\" is supported, found " + quoted(item.as_string()));
}

/// Complains of fields that this server does not support and that would change the answer.
void refuse_what_changes_the_answer(const json_cursor& root) {
    refuse_foreign_fields(root);
    refuse_modalities(root);
    if (auto search = root.find("web_search_options"))
        search->fail(errc::unsupported, "this server does not search the web");
    auto functions = root.find("functions");
    if (functions && parse_count(*functions, std::numeric_limits<std::size_t>::max()) > 0)
        functions->fail(errc::unsupported, "functions are not supported; send them as tools");
}

/// Returns: the agent that `session_id` names. prompt_cache_key names no agent: applications share
/// one key between conversations, and these are found by their content.
std::optional<storage::agent_id> parse_agent(const json_cursor& root) {
    auto field = root.find("session_id");
    if (!field) return std::nullopt;
    const std::string_view text = field->as_string();
    if (text.empty()) field->fail(errc::bad_value, "must not be empty");
    auto agent = storage::agent_id::parse("oai_" + std::string(text));
    if (agent) return std::move(*agent);
    field->fail(errc::bad_value, agent.error().what);
    return std::nullopt;
}

int parse_choices(const json_cursor& root, const chat_limits& limits) {
    auto field = root.find("n");
    return field ? static_cast<int>(field->as_integer(1, limits.choices_max)) : 1;
}

/// Returns: how many alternatives to show with each token's log probability; nothing where log
/// probabilities are not wanted.
std::optional<int> parse_logprobs(const json_cursor& root, const chat_limits& limits) {
    const bool wanted = flag_at(root, "logprobs");
    std::int64_t likeliest = 0;
    if (auto field = root.find("top_logprobs")) {
        likeliest = field->as_integer(0, limits.top_logprobs_max);
        if (likeliest > 0 && !wanted)
            field->fail(errc::bad_value, "may be given only when logprobs is true");
    }
    if (!wanted) return std::nullopt;
    return static_cast<int>(likeliest);
}

void parse_streaming(const json_cursor& root, chat_request& request) {
    request.stream = flag_at(root, "stream");
    auto options = root.find("stream_options");
    if (!options) return;
    options->as_object();
    request.include_usage = flag_at(*options, "include_usage");
}

/// Reads the whole request.
chat_request parse_root(const json_cursor& root, const chat_limits& limits) {
    chat_request request;
    request.model = bounded_at(root, "model", limits.id_bytes_max);
    refuse_what_changes_the_answer(root);
    request.agent = parse_agent(root);
    request.max_tokens =
        parse_max_tokens(root, {"max_completion_tokens", "max_tokens", "n_predict"}, limits)
            .value_or(limits.max_tokens_max);
    if (auto field = root.find("stop")) request.stop_sequences = parse_stops(*field, limits);
    request.ending = parse_ending(root, request.max_tokens, limits);
    request.sampling = parse_sampling(root, limits, std::numeric_limits<std::int64_t>::min());
    if (auto effort = root.find("reasoning_effort")) request.thinking = parse_effort(*effort);
    request.top_scores = parse_logprobs(root, limits);
    request.choices = parse_choices(root, limits);
    parse_streaming(root, request);
    request.memory = parse_memory_policy(root, parse_prompt_cache_options(root));
    left_out_names left_out;
    request.chat = parse_conversation(root, limits, left_out, request.text_tools);
    request.left_out = left_out.take();
    parse_template_values(root, request.thinking, request.chat);
    parse_response_format(root, request);
    parse_foreign_forms(root, limits, request);
    parse_tool_choice(root, request);
    parse_prompt_end(root, last_answer::is_history, request.form, request.chat);
    return request;
}

}  // namespace

result<chat_request> parse_chat(std::string_view body, const chat_limits& limits) {
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return parse_root(root, limits); });
}

std::string system_fingerprint(std::string_view state) {
    // FNV-1a: only a name for a state, no protection against anything.
    std::uint64_t hash = 0xcbf29ce484222325;
    for (char c : state) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::string text = "fp_";
    // As long as the vendor's, which have ten digits.
    for (int i = 0; i < 10; ++i, hash >>= 4) text += storage::hex_digit(hash);
    return text;
}

}  // namespace semantic::protocol::openai

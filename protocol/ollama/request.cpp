// SPDX-License-Identifier: Apache-2.0
#include "protocol/ollama/request.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/history/open_calls.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/openai/common_fields.hpp"
#include "protocol/prompt_form.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/memory_wishes.hpp"

namespace semantic::protocol::ollama {

namespace {

namespace json = boost::json;

constexpr std::string_view latest = ":latest";

/// Returns: the lines that replace pictures, with a line break before each.
std::string read_images(const json_cursor& holder, const history_position& position) {
    std::string lines;
    auto images = holder.find("images");
    const std::size_t count = images ? parse_count(*images, 1'000) : 0;
    for (std::size_t i = 0; i < count; ++i) lines += "\n" + read_medium(*images, "image", position);
    return lines;
}

/// Returns: `text` followed by those lines.
std::string with_images(std::string text, const json_cursor& holder,
                        const history_position& position) {
    std::string lines = read_images(holder, position);
    // Nothing precedes the lines, so the first line break goes.
    if (text.empty() && !lines.empty()) return lines.substr(1);
    return text + lines;
}

/// Reads a call in the history; one without an id gets one of `calls`.
engine::tool_call_part parse_call(const json_cursor& item, open_calls& calls,
                                  const ollama_limits& limits) {
    item.as_object();
    const json_cursor function = item.at("function");
    engine::tool_call_part call;
    call.name = read_call_name(function, limits.name_bytes_max);
    auto id = item.find("id");
    const bool has_id = id && !(id->value().is_string() && id->as_string().empty());
    call.id =
        calls.add(has_id ? parse_bounded(*id, limits.call_id_bytes_max) : std::string(), call.name);
    auto arguments = function.find("arguments");
    call.arguments_json = arguments ? read_arguments(*arguments, limits.json) : "{}";
    return call;
}

std::string optional_string(const json_cursor& object, std::string_view key) {
    auto field = object.find(key);
    return field ? std::string(field->as_string()) : std::string();
}

/// Reads a message of the model. `calls`: notes its calls, for results that come later.
engine::message parse_assistant(const json_cursor& wire, open_calls& calls,
                                const history_position& position, const ollama_limits& limits) {
    engine::message message{engine::role::assistant, {}};
    if (std::string thinking = optional_string(wire, "thinking"); !thinking.empty())
        message.parts.push_back(engine::thinking_part{std::move(thinking)});
    auto list = wire.find("tool_calls");
    const std::size_t count = list ? parse_count(*list, limits.tool_calls_per_message_max) : 0;
    std::string text = with_images(optional_string(wire, "content"), wire, position);
    if (!text.empty() || count == 0) message.parts.push_back(engine::text_part{std::move(text)});
    for (std::size_t i = 0; i < count; ++i)
        message.parts.push_back(parse_call(list->item(i), calls, limits));
    return message;
}

/// Reads a tool's result; results without an id are matched to open calls by the tool's name.
engine::message parse_tool_result(const json_cursor& wire, open_calls& calls,
                                  const history_position& position) {
    const std::string id = optional_string(wire, "tool_call_id");
    std::string tool = optional_string(wire, "tool_name");
    if (tool.empty()) tool = optional_string(wire, "name");
    std::string text = with_images(string_at(wire, "content"), wire, position);
    return {engine::role::tool,
            {engine::tool_result_part{calls.take(id, tool), std::move(text), false}}};
}

/// Reads one message of any role.
engine::message parse_message(const json_cursor& wire, open_calls& calls,
                              const history_position& position, const ollama_limits& limits) {
    wire.as_object();
    const std::string role = string_at(wire, "role");
    if (role == "assistant") return parse_assistant(wire, calls, position, limits);
    if (role == "tool") return parse_tool_result(wire, calls, position);
    if (role != "system" && role != "user")
        wire.at("role").fail(
            errc::bad_value,
            R"(must be "system", "user", "assistant" or "tool", is )" + quoted(role));
    const auto from = role == "system" ? engine::role::system : engine::role::user;
    return {from, {engine::text_part{with_images(string_at(wire, "content"), wire, position)}}};
}

message_kind kind_of(const json_cursor& message) {
    const auto field = message.find("role");
    const json::value role = field ? field->value() : json::value();
    if (role == "tool") return message_kind::result;
    if (role == "assistant") return message_kind::of_assistant;
    if (role == "system") return message_kind::of_system;
    return message_kind::of_user;
}

/// Reads `format`: "json", a schema, or nothing.
void parse_format(const json_cursor& root, ollama_request& request) {
    auto format = root.find("format");
    if (!format) return;
    if (format->value().is_object()) return set_json_schema(request, *format, false);
    const std::string_view text = format->as_string();
    if (text == "json")
        request.form.what = engine::output_form::kind::json;
    else if (!text.empty())
        format->fail(errc::bad_value, R"(must be "json" or a JSON schema, is )" + quoted(text));
}

/// Reads `think`: a bool, or an effort.
engine::thinking_params parse_think(const json_cursor& root) {
    engine::thinking_params thinking;
    auto think = root.find("think");
    if (!think) return thinking;
    if (think->value().is_string()) return openai::parse_effort(*think);
    thinking.enabled = think->as_bool();
    return thinking;
}

/// Reads num_predict. -1 (no limit) and -2 (until the context is full) mean max_tokens_max.
int parse_num_predict(const json_cursor& options, const ollama_limits& limits) {
    auto field = options.find("num_predict");
    if (!field) return limits.max_tokens_max;
    const std::int64_t count = field->as_integer(-2, limits.max_tokens_max);
    return count < 0 ? limits.max_tokens_max : static_cast<int>(count);
}

/// Reads `options`: limits and sampling.
void parse_options(const json_cursor& root, ollama_request& request, const ollama_limits& limits) {
    request.max_tokens = limits.max_tokens_max;
    auto options = root.find("options");
    if (!options) return;
    options->as_object();
    refuse_foreign_fields(*options);
    request.max_tokens = parse_num_predict(*options, limits);
    if (auto stop = options->find("stop")) request.stop_sequences = parse_stops(*stop, limits);
    // Ollama takes any integer as a seed.
    request.sampling = parse_sampling(*options, limits, std::numeric_limits<std::int64_t>::min());
}

/// Reads the fields that chat and generate have in common.
ollama_request parse_common(const json_cursor& root, const ollama_limits& limits) {
    ollama_request request;
    request.model = bounded_at(root, "model", limits.id_bytes_max);
    request.stream = flag_at(root, "stream", true);
    request.thinking = parse_think(root);
    request.memory = parse_memory_policy(root, {});
    parse_options(root, request, limits);
    if (flag_at(root, "logprobs"))
        root.at("logprobs")
            .fail(errc::unsupported, "is not supported here; /v1/chat/completions has it");
    return request;
}

/// Makes a system message that opens the conversation its system text.
void take_opening_system_text(engine::conversation& chat) {
    // A system message alone is the conversation, which needs a message.
    if (chat.messages.size() < 2 || chat.messages.front().from != engine::role::system) return;
    chat.system = std::get<engine::text_part>(chat.messages.front().parts[0]).text;
    if (!chat.system.empty()) chat.messages.erase(chat.messages.begin());
}

/// Reads a request to /api/chat. One without messages only asks for the model to be loaded.
ollama_request read_chat(const json_cursor& root, const ollama_limits& limits) {
    ollama_request request = parse_common(root, limits);
    auto list = root.find("messages");
    const std::size_t count = list ? parse_count(*list, limits.messages_max) : 0;
    request.is_empty = count == 0;
    open_calls calls;
    left_out_names left_out;
    const std::size_t newest =
        newest_position(count, [&](std::size_t index) { return kind_of(list->item(index)); });
    for (std::size_t i = 0; i < count && list->ok(); ++i)
        request.chat.messages.push_back(
            parse_message(list->item(i), calls, {left_out, i >= newest}, limits));
    if (!root.ok() || request.is_empty) return request;
    take_opening_system_text(request.chat);
    request.chat.tools = openai::parse_function_tools(root, limits, left_out);
    request.left_out = left_out.take();
    parse_format(root, request);
    openai::parse_tool_choice(root, request);
    if (root.ok()) parse_prompt_end(root, last_answer::goes_on, request.form, request.chat);
    return request;
}

/// Reads a request to /api/generate. `raw`: the prompt is continued without a chat template.
ollama_request read_generate(const json_cursor& root, const ollama_limits& limits) {
    ollama_request request = parse_common(root, limits);
    left_out_names none;
    read_images(root, {none, true});
    refuse_field(root, "suffix", "this server continues texts; it does not fill them in");
    refuse_field(root, "template", "the model's own chat template is used; send raw with a prompt");
    if (auto context = root.find("context"); context && parse_count(*context, 1'000'000) > 0)
        context->fail(errc::unsupported,
                      "token ids are not taken back; send the messages to /api/chat, whose memory "
                      "is found by them");
    std::string prompt = optional_string(root, "prompt");
    request.is_empty = prompt.empty();
    parse_format(root, request);
    if (flag_at(root, "raw")) {
        if (!request.is_empty) request.text = std::move(prompt);
        return request;
    }
    request.chat.system = optional_string(root, "system");
    request.chat.messages.push_back({engine::role::user, {engine::text_part{std::move(prompt)}}});
    set_tool_use(request, tool_use::when_wanted, true, std::nullopt, root);
    return request;
}

}  // namespace

engine::generation_request ollama_request::take_generation(
    std::optional<storage::agent_id> agent,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
    engine::generation_request wanted = answer_request::take_generation(std::move(agent), deadline);
    wanted.text = std::move(text);
    return wanted;
}

result<ollama_request> parse_chat(std::string_view body, const ollama_limits& limits) {
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return read_chat(root, limits); });
}

result<ollama_request> parse_generate(std::string_view body, const ollama_limits& limits) {
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return read_generate(root, limits); });
}

result<std::string> parse_model_name(std::string_view body, const ollama_limits& limits) {
    return read_object(body, limits.json, [&](const json_cursor& root) {
        const char* key = root.find("model") || !root.find("name") ? "model" : "name";
        return bounded_at(root, key, limits.id_bytes_max);
    });
}

std::string_view without_latest(std::string_view model) noexcept {
    if (model.ends_with(latest)) model.remove_suffix(latest.size());
    return model;
}

}  // namespace semantic::protocol::ollama

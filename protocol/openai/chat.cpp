#include "protocol/openai/chat.hpp"

#include <boost/json.hpp>

#include <limits>
#include <string_view>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/openai/chat_messages.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::openai {

namespace {

result<void> parse_response_format(const json_cursor& root, chat_request& request) {
    auto format = root.find("response_format");
    if (!format) return {};
    auto type = string_at(*format, "type");
    if (!type) return type.error();
    if (*type == "text") return {};
    if (*type == "json_object") {
        request.form.what = engine::output_form::kind::json;
        return {};
    }
    if (*type != "json_schema")
        return format->at("type")->fail(errc::bad_value,
                                        R"(must be "text", "json_object" or "json_schema")");
    auto described = format->at("json_schema");
    if (!described) return described.error();
    if (auto object = described->as_object(); !object) return object.error();
    auto schema = described->at("schema");
    if (!schema) return schema.error();
    bool is_strict = false;
    if (auto flag = described->find("strict")) {
        auto value = flag->as_bool();
        if (!value) return value.error();
        is_strict = *value;
    }
    return set_json_schema(request, *schema, is_strict);
}

result<void> refuse_modalities(const json_cursor& root) {
    if (auto audio = root.find("audio"))
        return audio->fail(errc::unsupported, "audio is not supported");
    auto list = root.find("modalities");
    if (!list) return {};
    auto count = parse_count(*list, std::numeric_limits<std::size_t>::max());
    if (!count) return count.error();
    for (std::size_t i = 0; i < *count; ++i) {
        json_cursor item = list->item(i);
        auto name = item.as_string();
        if (!name) return name.error();
        if (*name != "text")
            return item.fail(errc::unsupported,
                             "only \"text\" is supported, found " + quoted(*name));
    }
    return {};
}

result<void> refuse_what_changes_the_answer(const json_cursor& root) {
    if (auto ok = refuse_foreign_fields(root); !ok) return ok;
    if (auto ok = refuse_modalities(root); !ok) return ok;
    if (auto search = root.find("web_search_options"))
        return search->fail(errc::unsupported, "this server does not search the web");
    if (auto functions = root.find("functions")) {
        auto count = parse_count(*functions, std::numeric_limits<std::size_t>::max());
        if (!count) return count.error();
        if (*count > 0)
            return functions->fail(errc::unsupported,
                                   "functions are not supported; send them as tools");
    }
    return {};
}

/// prompt_cache_key names nobody: applications share one between conversations, and these are found
/// by their content.
result<std::optional<storage::agent_id>> parse_agent(const json_cursor& root) {
    auto field = root.find("session_id");
    if (!field) return std::optional<storage::agent_id>();
    auto text = field->as_string();
    if (!text) return text.error();
    if (text->empty()) return field->fail(errc::bad_value, "must not be empty");
    auto agent = storage::agent_id::parse("oai_" + std::string(*text));
    if (!agent) return field->fail(errc::bad_value, agent.error().what);
    return std::optional(std::move(*agent));
}

/// `none` switches reasoning off where the model can; the finer steps of other models become the
/// nearest of the three that there are.
result<engine::thinking_params> parse_thinking(const json_cursor& root) {
    engine::thinking_params thinking;
    auto field = root.find("reasoning_effort");
    if (!field) return thinking;
    auto text = field->as_string();
    if (!text) return text.error();
    if (*text == "none") {
        thinking.enabled = false;
        thinking.effort = "low";
    } else if (*text == "minimal" || *text == "low") {
        thinking.effort = "low";
    } else if (*text == "medium") {
        thinking.effort = "medium";
    } else if (*text == "high" || *text == "xhigh" || *text == "max") {
        thinking.effort = "high";
    } else {
        return field->fail(errc::bad_value,
                           R"(must be "none", "minimal", "low", "medium", "high" or "xhigh", is )" +
                               quoted(*text));
    }
    return thinking;
}

/// What a template is told beside the conversation. Of all that, there is a switch for reasoning.
result<void> parse_template_options(const json_cursor& root, engine::thinking_params& thinking) {
    auto options = root.find("chat_template_kwargs");
    if (!options) return {};
    auto object = options->as_object();
    if (!object) return object.error();
    for (const auto& option : **object)
        if (option.key() != "enable_thinking" && !option.value().is_null())
            return options->at(option.key())
                ->fail(errc::unsupported,
                       "this server tells chat templates of enable_thinking alone");
    auto field = options->find("enable_thinking");
    if (!field) return {};
    auto enabled = field->as_bool();
    if (!enabled) return enabled.error();
    if (root.find("reasoning_effort") && thinking.enabled.value_or(true) != *enabled)
        return field->fail(errc::bad_value, "contradicts reasoning_effort");
    thinking.enabled = *enabled;
    return {};
}

/// {"type": "function", "function": {"name": ...}}: the one tool to call.
result<std::string> parse_named_tool(const json_cursor& choice) {
    auto type = string_at(choice, "type");
    if (!type) return type.error();
    if (*type != "function")
        return choice.at("type")->fail(errc::unsupported,
                                       "only \"function\" is supported, found " + quoted(*type));
    auto function = choice.at("function");
    if (!function) return function.error();
    if (auto object = function->as_object(); !object) return object.error();
    auto name = string_at(*function, "name");
    if (!name) return name.error();
    return std::string(*name);
}

result<void> parse_tool_choice(const json_cursor& root, chat_request& request) {
    bool several = true;
    if (auto field = root.find("parallel_tool_calls")) {
        auto is_parallel = field->as_bool();
        if (!is_parallel) return is_parallel.error();
        several = *is_parallel;
    }
    auto choice = root.find("tool_choice");
    if (!choice) return set_tool_use(request, tool_use::when_wanted, several, std::nullopt, root);
    if (choice->value().is_object()) {
        auto name = parse_named_tool(*choice);
        if (!name) return name.error();
        // One tool that must be called is called once, as the vendor does.
        return set_tool_use(request, tool_use::always, false, *name, *choice);
    }
    auto text = choice->as_string();
    if (!text) return text.error();
    tool_use use = tool_use::when_wanted;
    if (*text == "none")
        use = tool_use::never;
    else if (*text == "required")
        use = tool_use::always;
    else if (*text != "auto")
        return choice->fail(
            errc::bad_value,
            R"(must be "none", "auto", "required" or an object, is )" + quoted(*text));
    return set_tool_use(request, use, several, std::nullopt, *choice);
}

result<bool> parse_flag(const json_cursor& object, std::string_view key) {
    auto field = object.find(key);
    if (!field) return false;
    return field->as_bool();
}

result<int> parse_choices(const json_cursor& root, const chat_limits& limits) {
    auto field = root.find("n");
    if (!field) return 1;
    auto choices = field->as_integer(1, limits.choices_max);
    if (!choices) return choices.error();
    return static_cast<int>(*choices);
}

result<std::optional<int>> parse_logprobs(const json_cursor& root, const chat_limits& limits) {
    auto wanted = parse_flag(root, "logprobs");
    if (!wanted) return wanted.error();
    std::int64_t likeliest = 0;
    if (auto field = root.find("top_logprobs")) {
        auto count = field->as_integer(0, limits.top_logprobs_max);
        if (!count) return count.error();
        if (*count > 0 && !*wanted)
            return field->fail(errc::bad_value, "may be given only when logprobs is true");
        likeliest = *count;
    }
    if (!*wanted) return std::optional<int>();
    return std::optional(static_cast<int>(likeliest));
}

result<void> parse_streaming(const json_cursor& root, chat_request& request) {
    auto stream = parse_flag(root, "stream");
    if (!stream) return stream.error();
    request.stream = *stream;
    auto options = root.find("stream_options");
    if (!options) return {};
    if (auto object = options->as_object(); !object) return object.error();
    auto include_usage = parse_flag(*options, "include_usage");
    if (!include_usage) return include_usage.error();
    request.include_usage = *include_usage;
    return {};
}

result<chat_request> parse_root(const json_cursor& root, const chat_limits& limits) {
    chat_request request;
    auto model = bounded_at(root, "model", limits.id_bytes_max);
    if (!model) return model.error();
    request.model = std::move(*model);
    if (auto ok = refuse_what_changes_the_answer(root); !ok) return ok.error();
    auto agent = parse_agent(root);
    if (!agent) return agent.error();
    request.agent = std::move(*agent);
    auto max_tokens =
        parse_max_tokens(root, {"max_completion_tokens", "max_tokens", "n_predict"}, limits);
    if (!max_tokens) return max_tokens.error();
    request.max_tokens = max_tokens->value_or(limits.max_tokens_max);
    if (auto field = root.find("stop")) {
        auto stops = parse_stops(*field, limits);
        if (!stops) return stops.error();
        request.stop_sequences = std::move(*stops);
    }
    auto ending = parse_ending(root, request.max_tokens, limits);
    if (!ending) return ending.error();
    request.ending = std::move(*ending);
    auto sampling = parse_sampling(root, limits, std::numeric_limits<std::int64_t>::min());
    if (!sampling) return sampling.error();
    request.sampling = std::move(*sampling);
    auto thinking = parse_thinking(root);
    if (!thinking) return thinking.error();
    request.thinking = std::move(*thinking);
    if (auto ok = parse_template_options(root, request.thinking); !ok) return ok.error();
    auto top_scores = parse_logprobs(root, limits);
    if (!top_scores) return top_scores.error();
    request.top_scores = *top_scores;
    auto choices = parse_choices(root, limits);
    if (!choices) return choices.error();
    request.choices = *choices;
    if (auto ok = parse_streaming(root, request); !ok) return ok.error();
    auto chat = parse_conversation(root, limits);
    if (!chat) return chat.error();
    request.chat = std::move(*chat);
    if (auto ok = parse_response_format(root, request); !ok) return ok.error();
    if (auto ok = parse_tool_choice(root, request); !ok) return ok.error();
    return request;
}

}  // namespace

result<chat_request> parse_chat(std::string_view body, const chat_limits& limits) {
    auto document = parse_json(body, limits.json);
    if (!document) return document.error();
    json_cursor root(*document, "");
    if (auto object = root.as_object(); !object) return object.error();
    return parse_root(root, limits);
}

std::string system_fingerprint(std::string_view what) {
    // FNV-1a: a name for a state, no protection against anything.
    std::uint64_t hash = 0xcbf29ce484222325;
    for (char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    constexpr char digits[] = "0123456789abcdef";
    std::string text = "fp_";
    for (int i = 0; i < 10; ++i, hash >>= 4) text += digits[hash & 15];
    return text;
}

}  // namespace semantic::protocol::openai

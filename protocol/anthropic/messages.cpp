#include "protocol/anthropic/messages.hpp"

#include <boost/json.hpp>

#include <limits>
#include <string_view>
#include <utility>

#include "protocol/answer_form.hpp"
#include "protocol/anthropic/conversation.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace {

/// Fields that may not be lost in silence: without them the request means something else.
result<void> refuse_what_changes_the_meaning(const json_cursor& root) {
    if (auto ok = refuse_foreign_fields(root); !ok) return ok;
    if (auto ok = refuse_field(root, "chat_template_kwargs", "is not supported; see thinking"); !ok)
        return ok;
    if (auto servers = root.find("mcp_servers")) {
        auto count = parse_count(*servers, std::numeric_limits<std::size_t>::max());
        if (!count) return count.error();
        if (*count > 0)
            return servers->fail(errc::unsupported, "this server does not call MCP servers");
    }
    return {};
}

result<thread_fields> parse_thread(const json_cursor& root, const messages_limits& limits) {
    thread_fields fields;
    auto thread = root.find("thread");
    if (!thread) return fields;
    auto type = string_at(*thread, "type");
    if (!type) return type.error();
    if (*type != "create" && *type != "continue")
        return thread->at("type")->fail(errc::bad_value,
                                        R"(must be "create" or "continue", is )" + quoted(*type));
    fields.is_kept = true;
    if (*type == "create") return fields;
    auto id = bounded_at(*thread, "previous_message_id", limits.id_bytes_max);
    if (!id) return id.error();
    fields.continues = std::move(*id);
    for (const char* name : {"system", "tools"})
        if (auto field = root.find(name))
            return field->fail(errc::bad_value,
                               "a thread keeps what it was created with; leave this out");
    auto messages = root.at("messages");
    if (!messages) return messages.error();
    auto count = parse_count(*messages, limits.messages_max);
    if (!count) return count.error();
    if (*count == 0)
        return messages->fail(errc::bad_value,
                              "at least one message is required: no answer waits to be resumed");
    return fields;
}

/// The messages, and the tools of the thread that they continue.
result<engine::conversation> parse_chat(const json_cursor& root, const thread_fields& thread,
                                        const messages_limits& limits,
                                        const thread_tools& tools_of) {
    auto chat = parse_conversation(root, limits);
    if (!chat || thread.continues.empty()) return chat;
    json_cursor place = *root.at("thread")->at("previous_message_id");
    result<std::vector<engine::tool_definition>> tools = thread_not_found(thread.continues);
    if (tools_of) tools = tools_of(thread.continues);
    if (!tools) {
        failure f = place.fail(tools.error().code, tools.error().what);
        f.error_code = tools.error().error_code;
        return f;
    }
    chat->tools = std::move(*tools);
    return chat;
}

result<std::string> parse_model(const json_cursor& root, const messages_limits& limits) {
    auto model = root.at("model");
    if (!model) return model.error();
    return parse_bounded(*model, limits.id_bytes_max);
}

result<void> parse_tool_choice(const json_cursor& root, messages_request& request) {
    auto choice = root.find("tool_choice");
    if (!choice) return set_tool_use(request, tool_use::when_wanted, true, std::nullopt, root);
    auto type = string_at(*choice, "type");
    if (!type) return type.error();
    json_cursor place = *choice->at("type");
    tool_use use = tool_use::always;
    std::optional<std::string> only;
    if (*type == "tool") {
        auto name = string_at(*choice, "name");
        if (!name) return name.error();
        only = std::string(*name);
        place = *choice->at("name");
    } else if (*type == "auto") {
        use = tool_use::when_wanted;
    } else if (*type == "none") {
        use = tool_use::never;
    } else if (*type != "any") {
        return place.fail(errc::bad_value, R"(must be "auto", "any", "tool" or "none")");
    }
    bool several = true;
    if (auto flag = choice->find("disable_parallel_tool_use")) {
        auto is_single = flag->as_bool();
        if (!is_single) return is_single.error();
        several = !*is_single;
    }
    return set_tool_use(request, use, several, only, place);
}

/// output_config.format, and output_format as it was called before.
result<void> parse_format(const json_cursor& root, messages_request& request) {
    auto format = root.find("output_format");
    if (auto config = root.find("output_config")) {
        if (auto object = config->as_object(); !object) return object.error();
        if (auto newer = config->find("format")) format = newer;
    }
    if (!format) return {};
    auto type = string_at(*format, "type");
    if (!type) return type.error();
    if (*type != "json_schema")
        return format->at("type")->fail(errc::bad_value,
                                        R"(must be "json_schema", is )" + quoted(*type));
    auto schema = format->at("schema");
    if (!schema) return schema.error();
    return set_json_schema(request, *schema, true);
}

result<std::optional<std::string>> parse_effort(const json_cursor& root) {
    using effort_or_nothing = std::optional<std::string>;
    auto config = root.find("output_config");
    if (!config) return effort_or_nothing();
    auto effort = config->find("effort");
    if (!effort) return effort_or_nothing();
    auto text = effort->as_string();
    if (!text) return text.error();
    if (*text == "low" || *text == "medium") return effort_or_nothing(*text);
    if (*text == "high" || *text == "xhigh" || *text == "max") return effort_or_nothing("high");
    return effort->fail(
        errc::bad_value,
        R"(must be "low", "medium", "high", "xhigh" or "max", is )" + quoted(*text));
}

/// As the vendor has it, a request that does not speak of thinking wants none.
result<engine::thinking_params> parse_thinking(const json_cursor& root) {
    engine::thinking_params thinking;
    thinking.enabled = false;
    auto effort = parse_effort(root);
    if (!effort) return effort.error();
    thinking.effort = std::move(*effort);
    auto field = root.find("thinking");
    if (!field) return thinking;
    auto type = string_at(*field, "type");
    if (!type) return type.error();
    if (*type != "enabled" && *type != "adaptive" && *type != "disabled")
        return field->at("type")->fail(
            errc::bad_value, R"(must be "enabled", "adaptive" or "disabled", is )" + quoted(*type));
    thinking.enabled = *type != "disabled";
    if (*type != "enabled") return thinking;
    if (auto budget = field->find("budget_tokens")) {
        auto tokens = budget->as_integer(1, std::numeric_limits<int>::max());
        if (!tokens) return tokens.error();
        thinking.budget_tokens = static_cast<int>(*tokens);
    }
    return thinking;
}

/// Whether thinking blocks come without their text.
result<bool> parse_display(const json_cursor& root) {
    auto field = root.find("thinking");
    if (!field) return false;
    auto display = field->find("display");
    if (!display) return false;
    auto text = display->as_string();
    if (!text) return text.error();
    if (*text != "summarized" && *text != "omitted")
        return display->fail(errc::bad_value,
                             R"(must be "summarized" or "omitted", is )" + quoted(*text));
    return *text == "omitted";
}

result<void> parse_diagnostics(const json_cursor& root, const messages_limits& limits,
                               messages_request& request) {
    auto field = root.find("diagnostics");
    if (!field) return {};
    if (auto object = field->as_object(); !object) return object.error();
    request.diagnoses = true;
    auto previous = field->find("previous_message_id");
    if (!previous) return {};
    auto id = parse_bounded(*previous, limits.id_bytes_max);
    if (!id) return id.error();
    request.previous_message_id = std::move(*id);
    return {};
}

result<std::string> parse_user_id(const json_cursor& root, const messages_limits& limits) {
    auto metadata = root.find("metadata");
    if (!metadata) return std::string();
    if (auto object = metadata->as_object(); !object) return object.error();
    auto user_id = metadata->find("user_id");
    if (!user_id) return std::string();
    auto text = user_id->as_string();
    if (!text) return text.error();
    if (text->empty()) return std::string();
    return parse_bounded(*user_id, limits.id_bytes_max);
}

/// A final assistant message asks for its own continuation, which a chat template cannot express:
/// it would be closed and followed by a new turn. A request that answers nothing (max_tokens 0) may
/// end anywhere.
result<void> check_last_role(const json_cursor& root, const messages_request& request) {
    if (request.max_tokens == 0 || request.chat.messages.back().from != engine::role::assistant)
        return {};
    auto list = root.at("messages");
    std::size_t last = list->value().get_array().size() - 1;
    return list->item(last).fail(
        errc::unsupported,
        "continuing an assistant message is not supported; the last message must be the user's");
}

result<messages_request> parse_root(const json_cursor& root, const messages_limits& limits,
                                    const thread_tools& tools_of) {
    messages_request request;
    if (auto ok = refuse_what_changes_the_meaning(root); !ok) return ok.error();
    auto thread = parse_thread(root, limits);
    if (!thread) return thread.error();
    request.thread = std::move(*thread);
    auto model = parse_model(root, limits);
    if (!model) return model.error();
    request.model = std::move(*model);
    auto max_tokens = parse_max_tokens(root, {"max_tokens", "n_predict"}, limits);
    if (!max_tokens) return max_tokens.error();
    if (!*max_tokens)
        return failure{errc::missing_field, "max_tokens: field required", "max_tokens", {}};
    request.max_tokens = **max_tokens;
    auto chat = parse_chat(root, request.thread, limits, tools_of);
    if (!chat) return chat.error();
    request.chat = std::move(*chat);
    if (auto list = root.find("stop_sequences")) {
        auto stops = parse_stop_list(*list, limits);
        if (!stops) return stops.error();
        request.stop_sequences = std::move(*stops);
    }
    auto ending = parse_ending(root, request.max_tokens, limits);
    if (!ending) return ending.error();
    request.ending = std::move(*ending);
    auto sampling = parse_sampling(root, limits, -1);
    if (!sampling) return sampling.error();
    request.sampling = std::move(*sampling);
    auto thinking = parse_thinking(root);
    if (!thinking) return thinking.error();
    request.thinking = std::move(*thinking);
    request.shows_thinking = request.thinking.enabled.value_or(false);
    auto hides_thinking = parse_display(root);
    if (!hides_thinking) return hides_thinking.error();
    request.hides_thinking = *hides_thinking;
    if (auto ok = parse_diagnostics(root, limits, request); !ok) return ok.error();
    if (auto ok = parse_format(root, request); !ok) return ok.error();
    if (auto ok = parse_tool_choice(root, request); !ok) return ok.error();
    auto user_id = parse_user_id(root, limits);
    if (!user_id) return user_id.error();
    request.user_id = std::move(*user_id);
    if (auto field = root.find("stream")) {
        auto stream = field->as_bool();
        if (!stream) return stream.error();
        request.stream = *stream;
    }
    if (auto ok = check_last_role(root, request); !ok) return ok.error();
    return request;
}

}  // namespace

failure thread_not_found(std::string_view message_id) {
    return {errc::not_found,
            "there is no thread with the answer " + quoted(message_id),
            {},
            "thread_not_found"};
}

result<messages_request> parse_messages(std::string_view body, const messages_limits& limits,
                                        const thread_tools& tools_of) {
    auto document = parse_json(body, limits.json);
    if (!document) return document.error();
    json_cursor root(*document, "");
    if (auto object = root.as_object(); !object) return object.error();
    return parse_root(root, limits, tools_of);
}

result<count_tokens_request> parse_count_tokens(std::string_view body,
                                                const messages_limits& limits,
                                                const thread_tools& tools_of) {
    auto document = parse_json(body, limits.json);
    if (!document) return document.error();
    json_cursor root(*document, "");
    if (auto object = root.as_object(); !object) return object.error();
    if (auto ok = refuse_what_changes_the_meaning(root); !ok) return ok.error();
    auto model = parse_model(root, limits);
    if (!model) return model.error();
    auto thread = parse_thread(root, limits);
    if (!thread) return thread.error();
    auto chat = parse_chat(root, *thread, limits, tools_of);
    if (!chat) return chat.error();
    auto thinking = parse_thinking(root);
    if (!thinking) return thinking.error();
    return count_tokens_request{std::move(*model), std::move(*chat), std::move(*thinking),
                                std::move(*thread)};
}

std::string count_tokens_body(int input_tokens) {
    return "{\"input_tokens\":" + std::to_string(input_tokens) + "}";
}

}  // namespace semantic::protocol::anthropic

// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/messages.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>

#include "protocol/answer_form.hpp"
#include "protocol/anthropic/conversation.hpp"
#include "protocol/anthropic/summaries.hpp"
#include "protocol/prompt_form.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/memory_wishes.hpp"

namespace semantic::protocol::anthropic {

namespace {

/// Complains of fields that this server does not support and that change what the request means, so
/// that ignoring them would be wrong.
void refuse_what_changes_the_meaning(const json_cursor& root) {
    refuse_foreign_fields(root);
    auto servers = root.find("mcp_servers");
    if (servers && parse_count(*servers, std::numeric_limits<std::size_t>::max()) > 0)
        servers->fail(errc::unsupported, "this server does not call MCP servers");
}

/// Reads the field `thread`. Complains of fields that the thread keeps from its creation.
thread_fields parse_thread(const json_cursor& root, const messages_limits& limits) {
    thread_fields fields;
    auto thread = root.find("thread");
    if (!thread) return fields;
    const std::string type = string_at(*thread, "type");
    if (type != "create" && type != "continue")
        thread->at("type").fail(errc::bad_value,
                                R"(must be "create" or "continue", is )" + quoted(type));
    fields.is_kept = true;
    if (type == "create") return fields;
    fields.continues = bounded_at(*thread, "previous_message_id", limits.id_bytes_max);
    for (const char* name : {"system", "tools"})
        if (auto field = root.find(name))
            field->fail(errc::bad_value, "a thread keeps what it was created with; leave this out");
    const json_cursor messages = root.at("messages");
    if (parse_count(messages, limits.messages_max) == 0)
        messages.fail(errc::bad_value,
                      "at least one message is required: no answer waits to be resumed");
    return fields;
}

/// Reads the messages. A thread that is continued has its own tools, which `threads` knows; null:
/// there are no threads.
engine::conversation parse_chat(const json_cursor& root, const thread_fields& thread,
                                const messages_limits& limits, thread_reader* threads,
                                left_out_names& left_out) {
    if (!root.ok() || thread.continues.empty()) return parse_conversation(root, limits, left_out);
    result<engine::tool_lists> tools = thread_not_found(thread.continues);
    if (threads != nullptr) tools = threads->read_tools(thread.continues);
    if (tools) return parse_conversation(root, limits, left_out, *std::move(tools));
    root.at("thread")
        .at("previous_message_id")
        .fail(tools.error().code, tools.error().message, tools.error().error_code);
    return {};
}

/// Reads tool_choice.
void parse_tool_choice(const json_cursor& root, messages_request& request) {
    auto choice = root.find("tool_choice");
    if (!choice) return set_tool_use(request, tool_use::when_wanted, true, std::nullopt, root);
    const std::string type = string_at(*choice, "type");
    json_cursor place = choice->at("type");
    tool_use use = tool_use::always;
    std::optional<std::string> only;
    if (type == "tool") {
        only = string_at(*choice, "name");
        place = choice->at("name");
    } else if (type == "auto") {
        use = tool_use::when_wanted;
    } else if (type == "none") {
        use = tool_use::never;
    } else if (type != "any") {
        place.fail(errc::bad_value, R"(must be "auto", "any", "tool" or "none")");
    }
    const bool several = !flag_at(*choice, "disable_parallel_tool_use");
    set_tool_use(request, use, several, only, place);
}

/// Reads output_config.format, or output_format, its earlier name.
void parse_format(const json_cursor& root, messages_request& request) {
    auto format = root.find("output_format");
    if (auto config = root.find("output_config")) {
        config->as_object();
        if (auto newer = config->find("format")) format = newer;
    }
    if (!format) return;
    const std::string type = string_at(*format, "type");
    if (type != "json_schema")
        format->at("type").fail(errc::bad_value, R"(must be "json_schema", is )" + quoted(type));
    set_json_schema(request, format->at("schema"), true);
}

/// Returns: output_config.effort as "low", "medium" or "high", which higher ones become; nothing
/// where it is absent.
std::optional<std::string> parse_effort(const json_cursor& root) {
    auto config = root.find("output_config");
    auto effort = config ? config->find("effort") : std::nullopt;
    if (!effort) return std::nullopt;
    const std::string_view text = effort->as_string();
    if (text == "low" || text == "medium") return std::string(text);
    if (text != "high" && text != "xhigh" && text != "max")
        effort->fail(errc::bad_value,
                     R"(must be "low", "medium", "high", "xhigh" or "max", is )" + quoted(text));
    return "high";
}

/// Reads `thinking`. As for the vendor, a request without it does not want any.
engine::thinking_params parse_thinking_params(const json_cursor& root) {
    engine::thinking_params thinking;
    thinking.enabled = false;
    thinking.effort = parse_effort(root);
    auto field = root.find("thinking");
    if (!field) return thinking;
    const std::string type = string_at(*field, "type");
    if (type != "enabled" && type != "adaptive" && type != "disabled")
        field->at("type").fail(
            errc::bad_value, R"(must be "enabled", "adaptive" or "disabled", is )" + quoted(type));
    thinking.enabled = type != "disabled";
    if (type != "enabled") return thinking;
    if (auto budget = field->find("budget_tokens"))
        thinking.budget_tokens =
            static_cast<int>(budget->as_integer(1, std::numeric_limits<int>::max()));
    return thinking;
}

/// Returns: whether thinking blocks come without their text. An unknown `display` shows it.
bool parse_display(const json_cursor& root) {
    auto field = root.find("thinking");
    auto display = field ? field->find("display") : std::nullopt;
    return display && display->as_string() == "omitted";
}

void parse_diagnostics(const json_cursor& root, const messages_limits& limits,
                       messages_request& request) {
    auto field = root.find("diagnostics");
    if (!field) return;
    field->as_object();
    request.diagnoses = true;
    if (auto previous = field->find("previous_message_id"))
        request.previous_message_id = parse_bounded(*previous, limits.id_bytes_max);
}

std::string parse_user_id(const json_cursor& root, const messages_limits& limits) {
    auto metadata = root.find("metadata");
    if (!metadata) return {};
    metadata->as_object();
    auto user_id = metadata->find("user_id");
    if (!user_id || user_id->as_string().empty()) return {};
    return parse_bounded(*user_id, limits.id_bytes_max);
}

/// Decides where the prompt ends: as for the vendor, a final assistant message is the beginning of
/// the answer; only a request that asks for no answer (max_tokens 0) may end with a complete one.
/// Complains where the beginning cannot be continued.
void parse_end(const json_cursor& root, const engine::output_form& form, bool thinks,
               bool wants_answer, engine::conversation& chat) {
    if (!root.ok()) return;
    parse_prompt_end(root, wants_answer ? last_answer::goes_on : last_answer::is_history, form,
                     chat);
    if (!root.ok() || chat.end != engine::prompt_end::inside_answer) return;
    const json_cursor list = root.at("messages");
    const json_cursor last = list.item(list.as_array().size() - 1);
    if (thinks)
        last.fail(errc::bad_value,
                  "an assistant message cannot be continued when thinking is enabled");
    const auto& parts = chat.messages.back().parts;
    const auto* text = parts.empty() ? nullptr : std::get_if<engine::text_part>(&parts.back());
    if (text && !text->text.empty() && is_white_space(std::string_view(&text->text.back(), 1)))
        last.fail(errc::bad_value, "final assistant content cannot end with trailing whitespace");
}

bool may_compact(const context_edits& edits) {
    return std::ranges::any_of(
        edits.list, [](const auto& each) { return std::holds_alternative<compact>(each); });
}

/// Reads context_management, and keeps what a second request after a summary needs: the body
/// without messages and edits.
void parse_edits(const json_cursor& root, const messages_limits& limits, left_out_names& left_out,
                 messages_request& request) {
    request.edits = parse_context_edits(root, limits, left_out);
    if (root.ok()) request.tool_changes = tool_changes_of(root, request.chat);
    if (!root.ok() || !may_compact(request.edits)) return;
    boost::json::object rest;
    for (const auto& [key, value] : root.as_object())
        if (key != "messages" && key != "context_management" && key != "thread")
            rest.emplace(key, value);
    request.rest_of_body = to_text(std::move(rest));
}

/// Reads the whole body. Fields that later ones are checked against are read first.
messages_request parse_root(const json_cursor& root, const messages_limits& limits,
                            thread_reader* threads) {
    messages_request request;
    refuse_what_changes_the_meaning(root);
    request.thread = parse_thread(root, limits);
    request.model = bounded_at(root, "model", limits.id_bytes_max);
    auto max_tokens = parse_max_tokens(root, {"max_tokens", "n_predict"}, limits);
    if (!max_tokens) root.place("max_tokens").fail(errc::missing_field, "field required");
    request.max_tokens = max_tokens.value_or(0);
    left_out_names left_out;
    request.chat = parse_chat(root, request.thread, limits, threads, left_out);
    if (auto list = root.find("stop_sequences"))
        request.stop_sequences = parse_stop_list(*list, limits);
    request.ending = parse_ending(root, request.max_tokens, limits);
    request.sampling = parse_sampling(root, limits, -1);
    request.thinking = parse_thinking_params(root);
    parse_template_values(root, request.thinking, request.chat);
    request.shows_thinking = request.thinking.enabled.value_or(false);
    request.hides_thinking = parse_display(root);
    parse_diagnostics(root, limits, request);
    parse_format(root, request);
    parse_foreign_forms(root, limits, request);
    parse_tool_choice(root, request);
    request.user_id = parse_user_id(root, limits);
    request.stream = flag_at(root, "stream");
    request.memory = parse_memory_policy(root, parse_cache_control(root));
    request.safeguards = parse_safeguards(root, left_out);
    parse_edits(root, limits, left_out, request);
    request.left_out = left_out.take();
    parse_compaction(root, request);
    // parse_compaction() has set the prompt's end.
    if (request.compacts) return request;
    parse_end(root, request.form, request.shows_thinking, request.max_tokens > 0, request.chat);
    return request;
}

}  // namespace

failure thread_not_found(std::string_view message_id) {
    failure f = fail(errc::not_found, "there is no thread with the answer " + quoted(message_id));
    f.error_code = "thread_not_found";
    return f;
}

result<messages_request> parse_messages(std::string_view body, const messages_limits& limits,
                                        thread_reader* threads) {
    return read_object(body, limits.json,
                       [&](const json_cursor& root) { return parse_root(root, limits, threads); });
}

result<count_tokens_request> parse_count_tokens(std::string_view body,
                                                const messages_limits& limits,
                                                thread_reader* threads) {
    return read_object(body, limits.json, [&](const json_cursor& root) {
        count_tokens_request request;
        refuse_what_changes_the_meaning(root);
        request.model = bounded_at(root, "model", limits.id_bytes_max);
        request.thread = parse_thread(root, limits);
        left_out_names left_out;
        request.chat = parse_chat(root, request.thread, limits, threads, left_out);
        request.thinking = parse_thinking_params(root);
        request.edits = parse_context_edits(root, limits, left_out);
        parse_template_values(root, request.thinking, request.chat);
        parse_end(root, {}, request.thinking.enabled.value_or(false), true, request.chat);
        return request;
    });
}

std::string count_tokens_body(int input_tokens, int original_tokens) {
    std::string body = "{\"input_tokens\":" + std::to_string(input_tokens);
    if (original_tokens > 0)
        body += ",\"context_management\":{\"original_input_tokens\":" +
                std::to_string(original_tokens) + "}";
    return body + "}";
}

}  // namespace semantic::protocol::anthropic

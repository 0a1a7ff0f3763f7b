// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/chat_messages.hpp"

#include <boost/json.hpp>

#include <string_view>
#include <utility>

#include "protocol/history/open_calls.hpp"
#include "protocol/openai/common_fields.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::openai {

namespace {

enum class wire_role { system, user, assistant, tool, function };

wire_role parse_role(const json_cursor& message) {
    const json_cursor field = message.at("role");
    const std::string_view role = field.as_string();
    if (role == "system" || role == "developer") return wire_role::system;
    if (role == "user") return wire_role::user;
    if (role == "assistant") return wire_role::assistant;
    if (role == "tool") return wire_role::tool;
    if (role == "function") return wire_role::function;
    field.fail(errc::bad_value, R"(must be "system", "developer", "user", "assistant", "tool" or )"
                                R"("function", is )" +
                                    quoted(role));
    return wire_role::user;
}

/// Returns: the text of one part of a content list; a refusal counts as what the assistant said.
/// Nothing for an unknown type.
std::optional<std::string> parse_part(const json_cursor& part, wire_role from,
                                      const history_position& position) {
    const std::string type = string_at(part, "type");
    if (type == "text") return string_at(part, "text");
    if (type == "refusal" && from == wire_role::assistant) return string_at(part, "refusal");
    const std::string_view medium = medium_of(type);
    if (medium.empty()) return std::nullopt;
    return read_medium(part, medium, position);
}

/// Returns: an id or name of a call or result; empty where there is none.
std::string parse_optional_name(const json_cursor& wire, const char* key, std::size_t bytes_max) {
    auto field = wire.find(key);
    if (!field || (field->value().is_string() && field->as_string().empty())) return {};
    return parse_bounded(*field, bytes_max);
}

/// Reads the messages of one conversation, in order.
class message_reader {
  public:
    message_reader(const chat_limits& limits, left_out_names& left_out)
        : limits_(limits), position_{left_out} {}

    engine::message read(const json_cursor& wire, bool is_newest);

  private:
    std::vector<std::string> parse_content(const json_cursor& content, wire_role from) const;
    engine::tool_call_part make_call(std::string id, std::string name, std::string arguments);
    engine::tool_call_part parse_function_call(std::string id, const json_cursor& function);
    std::optional<engine::tool_call_part> parse_tool_call(const json_cursor& item);
    std::vector<engine::tool_call_part> parse_tool_calls(const json_cursor& wire);
    engine::message parse_assistant(const json_cursor& wire);
    engine::message parse_tool_result(const json_cursor& wire, wire_role from);

    const chat_limits& limits_;
    history_position position_;
    open_calls calls_;
};

/// Reads a string, or a list of text parts.
std::vector<std::string> message_reader::parse_content(const json_cursor& content,
                                                       wire_role from) const {
    return parse_texts(content, limits_.parts_per_message_max, position_,
                       [&](const json_cursor& part) { return parse_part(part, from, position_); });
}

/// Adds a call to the open ones, which may give it an id.
engine::tool_call_part message_reader::make_call(std::string id, std::string name,
                                                 std::string arguments) {
    std::string known = calls_.add(std::move(id), name);
    return {std::move(known), std::move(name), std::move(arguments)};
}

/// Reads a call from {"name", "arguments"}.
engine::tool_call_part message_reader::parse_function_call(std::string id,
                                                           const json_cursor& function) {
    auto arguments = function.find("arguments");
    return make_call(std::move(id), read_call_name(function, limits_.name_bytes_max),
                     arguments ? read_arguments(*arguments, limits_.json) : "{}");
}

/// Reads a call. That of a custom tool, whose input is a text, becomes a call of a function with
/// one argument. Returns: nothing for a call of another type.
std::optional<engine::tool_call_part> message_reader::parse_tool_call(const json_cursor& item) {
    item.as_object();
    std::string id = parse_optional_name(item, "id", limits_.call_id_bytes_max);
    auto type = item.find("type");
    if (!type || type->as_string() == "function")
        return parse_function_call(std::move(id), item.at("function"));
    auto custom = item.find("custom");
    if (!custom || type->as_string() != "custom") {
        position_.left_out.add(type->as_string());
        return std::nullopt;
    }
    return make_call(std::move(id), read_call_name(*custom, limits_.name_bytes_max),
                     to_text(boost::json::object{{"input", custom->at("input").as_string()}}));
}

/// Reads the calls of a message, in the present form or the older one with a single function.
std::vector<engine::tool_call_part> message_reader::parse_tool_calls(const json_cursor& wire) {
    std::vector<engine::tool_call_part> calls;
    auto list = wire.find("tool_calls");
    const std::size_t count = list ? parse_count(*list, limits_.tool_calls_per_message_max) : 0;
    for (std::size_t i = 0; i < count; ++i)
        if (auto call = parse_tool_call(list->item(i))) calls.push_back(*std::move(call));
    if (auto function = wire.find("function_call")) {
        // The older form has no ids: its results name the function.
        std::string name = read_call_name(*function, limits_.name_bytes_max);
        calls.push_back(parse_function_call(std::move(name), *function));
    }
    return calls;
}

/// Returns: the model's reasoning in an earlier answer, under either of the two names that servers
/// give it.
std::string parse_reasoning(const json_cursor& wire) {
    auto field = wire.find("reasoning_content");
    if (!field) field = wire.find("reasoning");
    return field ? std::string(field->as_string()) : std::string();
}

/// Reads a message of the model: reasoning, text and calls.
engine::message message_reader::parse_assistant(const json_cursor& wire) {
    engine::message message{engine::role::assistant, {}};
    if (std::string thinking = parse_reasoning(wire); !thinking.empty())
        message.parts.push_back(engine::thinking_part{std::move(thinking)});
    // Before the content, which may be absent where there are calls.
    auto calls = parse_tool_calls(wire);
    auto content = wire.find("content");
    auto refusal = wire.find("refusal");
    const bool has_audio = wire.find("audio").has_value();
    if (content) {
        for (std::string& text : parse_content(*content, wire_role::assistant))
            message.parts.push_back(engine::text_part{std::move(text)});
    } else if (refusal) {
        message.parts.push_back(engine::text_part{std::string(refusal->as_string())});
    } else if (calls.empty() && !has_audio) {
        // A model that ended at once, or inside its reasoning, has said nothing: an empty text.
        message.parts.push_back(engine::text_part{});
    }
    if (has_audio) message.parts.push_back(engine::text_part{left_out_line("audio")});
    for (engine::tool_call_part& call : calls) message.parts.push_back(std::move(call));
    return message;
}

engine::message message_reader::parse_tool_result(const json_cursor& wire, wire_role from) {
    const bool has_id = from == wire_role::tool;
    const std::string tool = parse_optional_name(wire, "name", limits_.name_bytes_max);
    const std::string id =
        has_id ? parse_optional_name(wire, "tool_call_id", limits_.call_id_bytes_max) : tool;
    std::string call = calls_.take(id, tool);
    // No call waits, so the result must say of which it is; without a name that is a complaint.
    if (call.empty()) bounded_at(wire, has_id ? "tool_call_id" : "name", limits_.id_bytes_max);
    std::string text = joined(parse_content(wire.at("content"), from));
    return {engine::role::tool,
            {engine::tool_result_part{std::move(call), std::move(text), false}}};
}

/// Reads one message of any role. Only the assistant's may have calls.
engine::message message_reader::read(const json_cursor& wire, bool is_newest) {
    wire.as_object();
    position_.is_newest = is_newest;
    const wire_role role = parse_role(wire);
    if (role == wire_role::assistant) return parse_assistant(wire);
    if (auto calls = wire.find("tool_calls"))
        calls->fail(errc::bad_value, R"(belong in a message of role "assistant")");
    if (role == wire_role::tool || role == wire_role::function)
        return parse_tool_result(wire, role);
    auto texts = parse_content(wire.at("content"), role);
    if (role == wire_role::system)
        return {engine::role::system, {engine::text_part{joined(texts)}}};
    engine::message message{engine::role::user, {}};
    for (std::string& text : texts) message.parts.push_back(engine::text_part{std::move(text)});
    return message;
}

message_kind kind_of(const json_cursor& message) {
    const auto field = message.find("role");
    const boost::json::value role = field ? field->value() : boost::json::value();
    if (role == "tool" || role == "function") return message_kind::result;
    if (role == "assistant") return message_kind::of_assistant;
    if (role == "system" || role == "developer") return message_kind::of_system;
    return message_kind::of_user;
}

std::vector<engine::message> parse_message_list(const json_cursor& root, const chat_limits& limits,
                                                left_out_names& left_out) {
    const json_cursor list = root.at("messages");
    const std::size_t count = parse_count(list, limits.messages_max);
    if (count == 0) list.fail(errc::bad_value, "at least one message is required");
    const std::size_t newest =
        newest_position(count, [&](std::size_t index) { return kind_of(list.item(index)); });
    std::vector<engine::message> messages;
    messages.reserve(count);
    message_reader reader(limits, left_out);
    for (std::size_t i = 0; i < count && list.ok(); ++i)
        messages.push_back(reader.read(list.item(i), i >= newest));
    return messages;
}

}  // namespace

engine::conversation parse_conversation(const json_cursor& root, const chat_limits& limits,
                                        left_out_names& left_out,
                                        std::set<std::string>& text_tools) {
    engine::conversation chat;
    chat.messages = parse_message_list(root, limits, left_out);
    // An empty one stays a message: without any, a template would insert its own system text.
    if (chat.messages.size() > 1 && chat.messages.front().from == engine::role::system) {
        std::string& text = std::get<engine::text_part>(chat.messages.front().parts[0]).text;
        text = without_billing_line(std::move(text));
        if (!text.empty()) {
            chat.system = std::move(text);
            chat.messages.erase(chat.messages.begin());
        }
    }
    chat.tools = parse_function_tools(root, limits, left_out, &text_tools);
    return chat;
}

}  // namespace semantic::protocol::openai

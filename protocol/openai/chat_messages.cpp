#include "protocol/openai/chat_messages.hpp"

#include <boost/json.hpp>

#include <string_view>
#include <utility>

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

/// One part of a content list. What a model refused to say is what it said.
std::string parse_part(const json_cursor& part, wire_role from) {
    const std::string type = string_at(part, "type");
    if (type == "text") return string_at(part, "text");
    if (type == "refusal" && from == wire_role::assistant) return string_at(part, "refusal");
    if (type == "image_url")
        part.fail(errc::unsupported, "Could not process image: this model takes text only");
    part.fail(errc::unsupported,
              "only text is supported here, found a part of type " + quoted(type));
    return {};
}

/// A string, or a list of text parts.
std::vector<std::string> parse_content(const json_cursor& content, wire_role from,
                                       const chat_limits& limits) {
    return parse_texts(content, limits.parts_per_message_max,
                       [from](const json_cursor& part) { return parse_part(part, from); });
}

/// {"name", "arguments"}.
engine::tool_call_part parse_call(const json_cursor& function, const chat_limits& limits) {
    engine::tool_call_part call;
    call.name = bounded_at(function, "name", limits.name_bytes_max);
    call.arguments_json = parse_arguments(function.at("arguments"), limits.json);
    return call;
}

engine::tool_call_part parse_tool_call(const json_cursor& item, const chat_limits& limits) {
    item.as_object();
    if (auto type = item.find("type"); type && type->as_string() != "function")
        type->fail(errc::unsupported, "only calls of type \"function\" are supported");
    std::string id = bounded_at(item, "id", limits.id_bytes_max);
    engine::tool_call_part call = parse_call(item.at("function"), limits);
    call.id = std::move(id);
    return call;
}

std::vector<engine::tool_call_part> parse_tool_calls(const json_cursor& wire,
                                                     const chat_limits& limits) {
    std::vector<engine::tool_call_part> calls;
    auto list = wire.find("tool_calls");
    const std::size_t count = list ? parse_count(*list, limits.tool_calls_per_message_max) : 0;
    for (std::size_t i = 0; i < count; ++i) calls.push_back(parse_tool_call(list->item(i), limits));
    if (auto function = wire.find("function_call")) {
        calls.push_back(parse_call(*function, limits));
        // The older form has no ids: its results name the function.
        calls.back().id = calls.back().name;
    }
    return calls;
}

/// What the model thought, under the name this server gives it or the one that others do.
std::string parse_reasoning(const json_cursor& wire) {
    auto field = wire.find("reasoning_content");
    if (!field) field = wire.find("reasoning");
    return field ? std::string(field->as_string()) : std::string();
}

engine::message parse_assistant(const json_cursor& wire, const chat_limits& limits) {
    engine::message message{engine::role::assistant, {}};
    if (auto audio = wire.find("audio")) audio->fail(errc::unsupported, "audio is not supported");
    if (std::string thinking = parse_reasoning(wire); !thinking.empty())
        message.parts.push_back(engine::thinking_part{std::move(thinking)});
    auto calls = parse_tool_calls(wire, limits);
    auto content = wire.find("content");
    auto refusal = wire.find("refusal");
    if (content) {
        for (std::string& text : parse_content(*content, wire_role::assistant, limits))
            message.parts.push_back(engine::text_part{std::move(text)});
    } else if (refusal) {
        message.parts.push_back(engine::text_part{std::string(refusal->as_string())});
    } else if (calls.empty()) {
        wire.at("content");  // a null is the empty answer of a model; nothing at all is a mistake
        message.parts.push_back(engine::text_part{});
    }
    for (engine::tool_call_part& call : calls) message.parts.push_back(std::move(call));
    return message;
}

engine::message parse_tool_result(const json_cursor& wire, wire_role from,
                                  const chat_limits& limits) {
    std::string id = from == wire_role::tool ? bounded_at(wire, "tool_call_id", limits.id_bytes_max)
                                             : bounded_at(wire, "name", limits.name_bytes_max);
    std::string text = joined(parse_content(wire.at("content"), from, limits));
    return {engine::role::tool, {engine::tool_result_part{std::move(id), std::move(text), false}}};
}

engine::message parse_message(const json_cursor& wire, const chat_limits& limits) {
    wire.as_object();
    const wire_role role = parse_role(wire);
    if (role == wire_role::assistant) return parse_assistant(wire, limits);
    if (auto calls = wire.find("tool_calls"))
        calls->fail(errc::bad_value, R"(belong in a message of role "assistant")");
    if (role == wire_role::tool || role == wire_role::function)
        return parse_tool_result(wire, role, limits);
    auto texts = parse_content(wire.at("content"), role, limits);
    if (role == wire_role::system)
        return {engine::role::system, {engine::text_part{joined(texts)}}};
    engine::message message{engine::role::user, {}};
    for (std::string& text : texts) message.parts.push_back(engine::text_part{std::move(text)});
    return message;
}

std::vector<engine::message> parse_message_list(const json_cursor& root,
                                                const chat_limits& limits) {
    const json_cursor list = root.at("messages");
    const std::size_t count = parse_count(list, limits.messages_max);
    if (count == 0) list.fail(errc::bad_value, "at least one message is required");
    std::vector<engine::message> messages;
    messages.reserve(count);
    for (std::size_t i = 0; i < count && list.ok(); ++i)
        messages.push_back(parse_message(list.item(i), limits));
    return messages;
}

}  // namespace

engine::conversation parse_conversation(const json_cursor& root, const chat_limits& limits) {
    engine::conversation chat;
    chat.messages = parse_message_list(root, limits);
    // An empty one stays: a template's own system text would stand where there is none.
    if (chat.messages.size() > 1 && chat.messages.front().from == engine::role::system) {
        std::string& text = std::get<engine::text_part>(chat.messages.front().parts[0]).text;
        text = without_billing_line(std::move(text));
        if (!text.empty()) {
            chat.system = std::move(text);
            chat.messages.erase(chat.messages.begin());
        }
    }
    chat.tools = parse_function_tools(root, limits);
    return chat;
}

}  // namespace semantic::protocol::openai

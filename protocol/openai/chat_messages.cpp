#include "protocol/openai/chat_messages.hpp"

#include <boost/json.hpp>

#include <set>
#include <string_view>
#include <utility>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol::openai {

namespace {

enum class wire_role { system, user, assistant, tool, function };

result<wire_role> parse_role(const json_cursor& message) {
    auto field = message.at("role");
    if (!field) return field.error();
    auto role = field->as_string();
    if (!role) return role.error();
    if (*role == "system" || *role == "developer") return wire_role::system;
    if (*role == "user") return wire_role::user;
    if (*role == "assistant") return wire_role::assistant;
    if (*role == "tool") return wire_role::tool;
    if (*role == "function") return wire_role::function;
    return field->fail(errc::bad_value,
                       R"(must be "system", "developer", "user", "assistant", "tool" or )"
                       R"("function", is )" +
                           quoted(*role));
}

/// One part of a content list. What a model refused to say is what it said.
result<std::string> parse_part(const json_cursor& part, wire_role from) {
    auto type = string_at(part, "type");
    if (!type) return type.error();
    if (*type == "text") return string_at(part, "text");
    if (*type == "refusal" && from == wire_role::assistant) return string_at(part, "refusal");
    if (*type == "image_url")
        return part.fail(errc::unsupported, "Could not process image: this model takes text only");
    return part.fail(errc::unsupported,
                     "only text is supported here, found a part of type " + quoted(*type));
}

/// A string, or a list of text parts.
result<std::vector<std::string>> parse_content(const json_cursor& content, wire_role from,
                                               const chat_limits& limits) {
    std::vector<std::string> texts;
    if (content.value().is_string()) {
        texts.emplace_back(*content.as_string());
        return texts;
    }
    if (!content.value().is_array())
        return content.fail(errc::bad_value,
                            std::string("expected a string or a list of text parts, found ") +
                                kind_name(content.value()));
    auto count = parse_count(content, limits.parts_per_message_max);
    if (!count) return count.error();
    for (std::size_t i = 0; i < *count; ++i) {
        auto text = parse_part(content.item(i), from);
        if (!text) return text.error();
        texts.push_back(std::move(*text));
    }
    return texts;
}

result<std::vector<std::string>> parse_content_of(const json_cursor& message, wire_role from,
                                                  const chat_limits& limits) {
    auto content = message.at("content");
    if (!content) return content.error();
    return parse_content(*content, from, limits);
}

std::string joined(const std::vector<std::string>& texts) {
    std::string whole;
    for (const std::string& text : texts) {
        if (&text != &texts.front()) whole += '\n';
        whole += text;
    }
    return whole;
}

/// {"name", "arguments"}: a JSON object as text; an empty text is the call without arguments that
/// some clients send.
result<engine::tool_call_part> parse_function(const json_cursor& function,
                                              const chat_limits& limits) {
    engine::tool_call_part call;
    auto name = bounded_at(function, "name", limits.name_bytes_max);
    if (!name) return name.error();
    call.name = std::move(*name);
    auto arguments = function.at("arguments");
    if (!arguments) return arguments.error();
    auto text = arguments->as_string();
    if (!text) return text.error();
    if (text->empty()) {
        call.arguments_json = "{}";
        return call;
    }
    auto parsed = parse_json(*text, limits.json);
    if (!parsed || !parsed->is_object())
        return arguments->fail(errc::bad_value, "must be a JSON object, written as a string");
    call.arguments_json = to_text(*parsed);
    return call;
}

result<engine::tool_call_part> parse_tool_call(const json_cursor& item, const chat_limits& limits) {
    if (auto object = item.as_object(); !object) return object.error();
    if (auto type = item.find("type")) {
        auto text = type->as_string();
        if (!text) return text.error();
        if (*text != "function")
            return type->fail(errc::unsupported, "only calls of type \"function\" are supported");
    }
    auto id = bounded_at(item, "id", limits.id_bytes_max);
    if (!id) return id.error();
    auto function = item.at("function");
    if (!function) return function.error();
    auto call = parse_function(*function, limits);
    if (!call) return call.error();
    call->id = std::move(*id);
    return call;
}

result<std::vector<engine::tool_call_part>> parse_tool_calls(const json_cursor& wire,
                                                             const chat_limits& limits) {
    std::vector<engine::tool_call_part> calls;
    if (auto list = wire.find("tool_calls")) {
        auto count = parse_count(*list, limits.tool_calls_per_message_max);
        if (!count) return count.error();
        for (std::size_t i = 0; i < *count; ++i) {
            auto call = parse_tool_call(list->item(i), limits);
            if (!call) return call.error();
            calls.push_back(std::move(*call));
        }
    }
    if (auto function = wire.find("function_call")) {
        auto call = parse_function(*function, limits);
        if (!call) return call.error();
        call->id = call->name;  // the older form has no ids: its results name the function
        calls.push_back(std::move(*call));
    }
    return calls;
}

/// What the model thought, under the name this server gives it or the one that others do.
result<std::string> parse_reasoning(const json_cursor& wire) {
    auto field = wire.find("reasoning_content");
    if (!field) field = wire.find("reasoning");
    if (!field) return std::string();
    auto text = field->as_string();
    if (!text) return text.error();
    return std::string(*text);
}

result<engine::message> parse_assistant(const json_cursor& wire, const chat_limits& limits) {
    engine::message message{engine::role::assistant, {}};
    if (auto audio = wire.find("audio"))
        return audio->fail(errc::unsupported, "audio is not supported");
    if (auto thinking = parse_reasoning(wire); !thinking) {
        return thinking.error();
    } else if (!thinking->empty()) {
        message.parts.push_back(engine::thinking_part{std::move(*thinking)});
    }
    auto calls = parse_tool_calls(wire, limits);
    if (!calls) return calls.error();
    auto content = wire.find("content");
    auto refusal = wire.find("refusal");
    if (content) {
        auto texts = parse_content(*content, wire_role::assistant, limits);
        if (!texts) return texts.error();
        for (std::string& text : *texts)
            message.parts.push_back(engine::text_part{std::move(text)});
    } else if (refusal) {
        auto text = refusal->as_string();
        if (!text) return text.error();
        message.parts.push_back(engine::text_part{std::string(*text)});
    } else if (calls->empty()) {
        // An explicit null is the empty answer of a model; nothing at all is a mistake.
        if (auto field = wire.at("content"); !field) return field.error();
        message.parts.push_back(engine::text_part{});
    }
    for (engine::tool_call_part& call : *calls) message.parts.push_back(std::move(call));
    return message;
}

result<engine::message> parse_tool_result(const json_cursor& wire, wire_role from,
                                          const chat_limits& limits) {
    auto id = from == wire_role::tool ? bounded_at(wire, "tool_call_id", limits.id_bytes_max)
                                      : bounded_at(wire, "name", limits.name_bytes_max);
    if (!id) return id.error();
    auto texts = parse_content_of(wire, from, limits);
    if (!texts) return texts.error();
    return engine::message{engine::role::tool,
                           {engine::tool_result_part{std::move(*id), joined(*texts), false}}};
}

result<engine::message> parse_message(const json_cursor& wire, const chat_limits& limits) {
    if (auto object = wire.as_object(); !object) return object.error();
    auto role = parse_role(wire);
    if (!role) return role.error();
    if (*role == wire_role::assistant) return parse_assistant(wire, limits);
    if (auto calls = wire.find("tool_calls"))
        return calls->fail(errc::bad_value, R"(belong in a message of role "assistant")");
    if (*role == wire_role::tool || *role == wire_role::function)
        return parse_tool_result(wire, *role, limits);
    auto texts = parse_content_of(wire, *role, limits);
    if (!texts) return texts.error();
    if (*role == wire_role::system)
        return engine::message{engine::role::system, {engine::text_part{joined(*texts)}}};
    engine::message message{engine::role::user, {}};
    for (std::string& text : *texts) message.parts.push_back(engine::text_part{std::move(text)});
    return message;
}

result<std::vector<engine::message>> parse_message_list(const json_cursor& root,
                                                        const chat_limits& limits) {
    auto list = root.at("messages");
    if (!list) return list.error();
    auto count = parse_count(*list, limits.messages_max);
    if (!count) return count.error();
    if (*count == 0) return list->fail(errc::bad_value, "at least one message is required");
    std::vector<engine::message> messages;
    messages.reserve(*count);
    for (std::size_t i = 0; i < *count; ++i) {
        auto message = parse_message(list->item(i), limits);
        if (!message) return message.error();
        messages.push_back(std::move(*message));
    }
    return messages;
}

result<engine::tool_definition> parse_tool(const json_cursor& tool, const chat_limits& limits) {
    if (auto object = tool.as_object(); !object) return object.error();
    auto type = string_at(tool, "type");
    if (!type) return type.error();
    if (*type != "function")
        return tool.at("type")->fail(
            errc::unsupported,
            "only tools of type \"function\" are supported, found " + quoted(*type));
    auto function = tool.at("function");
    if (!function) return function.error();
    engine::tool_definition definition;
    auto name = bounded_at(*function, "name", limits.name_bytes_max);
    if (!name) return name.error();
    if (!is_tool_name(*name))
        return function->at("name")->fail(
            errc::bad_value, "may contain only letters, digits, - and _, is " + quoted(*name));
    definition.name = std::move(*name);
    if (auto description = function->find("description")) {
        auto text = description->as_string();
        if (!text) return text.error();
        definition.description = std::string(*text);
    }
    definition.parameters_json = R"({"type":"object","properties":{}})";
    if (auto schema = function->find("parameters")) {
        if (auto object = schema->as_object(); !object) return object.error();
        definition.parameters_json = to_text(schema->value());
    }
    if (auto flag = function->find("strict")) {
        auto is_strict = flag->as_bool();
        if (!is_strict) return is_strict.error();
        definition.strict = *is_strict;
    }
    return definition;
}

result<std::vector<engine::tool_definition>> parse_tools(const json_cursor& root,
                                                         const chat_limits& limits) {
    std::vector<engine::tool_definition> tools;
    auto list = root.find("tools");
    if (!list) return tools;
    auto count = parse_count(*list, limits.tools_max);
    if (!count) return count.error();
    std::set<std::string> names;
    for (std::size_t i = 0; i < *count; ++i) {
        json_cursor item = list->item(i);
        auto tool = parse_tool(item, limits);
        if (!tool) return tool.error();
        if (!names.insert(tool->name).second)
            return item.at("function")
                ->at("name")
                ->fail(errc::bad_value,
                       "tool names must be unique, found " + quoted(tool->name) + " twice");
        tools.push_back(std::move(*tool));
    }
    return tools;
}

}  // namespace

result<engine::conversation> parse_conversation(const json_cursor& root,
                                                const chat_limits& limits) {
    engine::conversation chat;
    auto messages = parse_message_list(root, limits);
    if (!messages) return messages.error();
    chat.messages = std::move(*messages);
    // An empty one stays: a template's own system text would stand where there is none.
    if (chat.messages.size() > 1 && chat.messages.front().from == engine::role::system) {
        std::string& text = std::get<engine::text_part>(chat.messages.front().parts[0]).text;
        text = without_billing_line(std::move(text));
        if (!text.empty()) {
            chat.system = std::move(text);
            chat.messages.erase(chat.messages.begin());
        }
    }
    auto tools = parse_tools(root, limits);
    if (!tools) return tools.error();
    chat.tools = std::move(*tools);
    return chat;
}

}  // namespace semantic::protocol::openai

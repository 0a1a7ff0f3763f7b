// SPDX-License-Identifier: Apache-2.0
#include "server/eval/conversation_json.hpp"

#include <boost/json.hpp>

#include <utility>

#include "server/eval/command_line.hpp"

namespace semantic::eval {

namespace {

namespace json = boost::json;
using engine::role;

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
    throw bad_input(where + " " + why);
}

/// The value as an object. `where` names it in errors. Throws bad_input.
const json::object& object_at(const json::value& value, const std::string& where) {
    if (!value.is_object()) refuse(where, "must be an object");
    return value.get_object();
}

/// The field of that name; null when it is missing or null.
const json::value* find(const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    return value != nullptr && !value->is_null() ? value : nullptr;
}

/// The text of a field; empty when it is missing. Throws bad_input when it is no string.
std::string text_at(const json::object& object, std::string_view name, const std::string& where) {
    const json::value* value = find(object, name);
    if (value == nullptr) return {};
    if (!value->is_string()) refuse(where + "." + std::string(name), "must be a string");
    return std::string(value->get_string());
}

/// The elements of a list field; none when it is missing. Throws bad_input when it is no list.
const json::array& list_at(const json::object& object, std::string_view name,
                           const std::string& where) {
    static const json::array none;
    const json::value* value = find(object, name);
    if (value == nullptr) return none;
    if (!value->is_array()) refuse(where + "." + std::string(name), "must be a list");
    return value->get_array();
}

/// A value as JSON text. A string is taken as such text already; {} where it is missing.
std::string json_text(const json::value* value) {
    if (value == nullptr) return "{}";
    return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

/// The function's object in {"type": "function", "function": {...}}; the object itself where it has
/// no such field.
const json::object& function_of(const json::object& object, const std::string& where) {
    const json::value* inner = find(object, "function");
    return inner == nullptr ? object : object_at(*inner, where + ".function");
}

/// The texts of a message's content: a string, or a list of text parts.
std::vector<std::string> content_of(const json::object& message, const std::string& where) {
    const json::value* content = find(message, "content");
    if (content == nullptr) return {};
    if (content->is_string()) return {std::string(content->get_string())};
    std::vector<std::string> texts;
    for (const json::value& part : list_at(message, "content", where)) {
        const json::object& object = object_at(part, where + ".content");
        if (text_at(object, "type", where + ".content") != "text") {
            refuse(where + ".content", "has a part that is not text");
        }
        texts.push_back(text_at(object, "text", where + ".content"));
    }
    return texts;
}

std::string joined(const std::vector<std::string>& texts) {
    std::string whole;
    for (const std::string& text : texts) {
        if (&text != &texts.front()) whole += '\n';
        whole += text;
    }
    return whole;
}

/// The bool of a field; `otherwise` when it is missing.
bool flag_at(const json::object& object, std::string_view name, bool otherwise,
             const std::string& where) {
    const json::value* value = find(object, name);
    if (value == nullptr) return otherwise;
    if (!value->is_bool()) refuse(where + "." + std::string(name), "must be true or false");
    return value->get_bool();
}

/// The role of a message. Throws bad_input.
role role_of(const json::object& message, const std::string& where) {
    const std::string name = text_at(message, "role", where);
    if (name == "system" || name == "developer") return role::system;
    if (name == "user") return role::user;
    if (name == "assistant") return role::assistant;
    if (name == "tool") return role::tool;
    refuse(where + ".role",
           "is \"" + name + "\": known are system, developer, user, assistant, tool");
}

engine::message parse_message(const json::object& object, const std::string& where) {
    engine::message message;
    message.from = role_of(object, where);
    std::vector<std::string> texts = content_of(object, where);
    if (message.from == role::tool) {
        message.parts.push_back(
            engine::tool_result_part{text_at(object, "tool_call_id", where), joined(texts)});
        return message;
    }
    for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
        std::string thinking = text_at(object, name, where);
        if (thinking.empty()) continue;
        message.parts.push_back(engine::thinking_part{std::move(thinking)});
        break;
    }
    const json::array& calls = list_at(object, "tool_calls", where);
    for (std::string& text : texts) message.parts.push_back(engine::text_part{std::move(text)});
    for (const json::value& call : calls) {
        const json::object& outer = object_at(call, where + ".tool_calls");
        const json::object& inner = function_of(outer, where + ".tool_calls");
        message.parts.push_back(engine::tool_call_part{text_at(outer, "id", where),
                                                       text_at(inner, "name", where),
                                                       json_text(find(inner, "arguments"))});
    }
    return message;
}

}  // namespace

engine::conversation parse_conversation(const json::value& root, const std::string& source) {
    const json::object& object = object_at(root, source);
    engine::conversation chat;
    chat.system = text_at(object, "system", source);
    bool first = find(object, "system") == nullptr;
    std::size_t index = 0;
    for (const json::value& value : list_at(object, "messages", source)) {
        const std::string where = source + ": messages[" + std::to_string(index++) + "]";
        const json::object& message = object_at(value, where);
        // An empty system text stays a message: it is not the same as none.
        if (first && role_of(message, where) == role::system) {
            chat.system = joined(content_of(message, where));
        }
        if (!first || chat.system.empty()) {
            chat.messages.push_back(parse_message(message, where));
        }
        first = false;
    }
    if (chat.messages.empty() && chat.system.empty()) refuse(source, "has no messages");
    for (const json::value& value : list_at(object, "tools", source)) {
        const json::object& tool =
            function_of(object_at(value, source + ": tools"), source + ": tools");
        const json::value* parameters = find(tool, "parameters");
        if (parameters == nullptr) parameters = find(tool, "input_schema");
        chat.tools.push_back({text_at(tool, "name", source), text_at(tool, "description", source),
                              parameters == nullptr ? std::string() : json_text(parameters)});
    }
    return chat;
}

engine::render_options parse_render_options(const json::value& root, const std::string& source) {
    const json::object& object = object_at(root, source);
    engine::render_options options;
    options.date = text_at(object, "date", source);
    if (find(object, "enable_thinking") != nullptr)
        options.thinking = flag_at(object, "enable_thinking", true, source);
    options.keep_thinking = flag_at(object, "keep_thinking", options.keep_thinking, source);
    if (find(object, "reasoning_effort") != nullptr) {
        options.reasoning_effort = text_at(object, "reasoning_effort", source);
    }
    return options;
}

}  // namespace semantic::eval

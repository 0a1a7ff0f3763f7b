#include "protocol/anthropic/conversation.hpp"

#include <boost/json.hpp>

#include <set>
#include <string_view>
#include <utility>

#include "protocol/anthropic/client_tools.hpp"
#include "protocol/anthropic/thinking_signature.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace {

/// Clients match the vendor's words for a picture or a PDF that it cannot read, and go on without.
failure only_text(const json_cursor& block, std::string_view type) {
    if (type == "image")
        return block.fail(errc::unsupported, "Could not process image: this model takes text only");
    if (type == "document")
        return block.fail(errc::unsupported,
                          "The PDF specified was not valid: this model takes text only");
    return block.fail(errc::unsupported,
                      "only text is supported here, found a block of type " + quoted(type));
}

result<std::string> type_of(const json_cursor& block) {
    auto type = block.at("type");
    if (!type) return type.error();
    auto text = type->as_string();
    if (!text) return text.error();
    return std::string(*text);
}

enum class billing_line { kept, dropped };

/// A string, or a list of text blocks joined by line breaks. A block that is nothing but a dropped
/// billing line leaves nothing behind.
result<std::string> parse_plain_text(const json_cursor& content, const messages_limits& limits,
                                     billing_line billing = billing_line::kept) {
    auto cleaned = [&](std::string text) {
        return billing == billing_line::dropped ? without_billing_line(std::move(text)) : text;
    };
    if (content.value().is_string()) return cleaned(std::string(*content.as_string()));
    if (!content.value().is_array()) {
        return content.fail(errc::bad_value,
                            std::string("expected a string or a list of text blocks, found ") +
                                kind_name(content.value()));
    }
    auto count = parse_count(content, limits.blocks_per_message_max);
    if (!count) return count.error();
    std::string joined;
    bool is_first = true;
    for (std::size_t i = 0; i < *count; ++i) {
        json_cursor block = content.item(i);
        auto type = type_of(block);
        if (!type) return type.error();
        if (*type != "text") return only_text(block, *type);
        auto text = string_at(block, "text");
        if (!text) return text.error();
        std::string rest = cleaned(*text);
        if (rest.empty() && !text->empty()) continue;
        if (!is_first) joined += '\n';
        is_first = false;
        joined += rest;
    }
    return joined;
}

/// An element with a line of its own for each tag, as models are used to see documents.
void append_element(std::string& to, std::string_view tag, std::string_view text) {
    to.append("<").append(tag).append(">").append(text).append("</").append(tag).append(">\n");
}

/// Appends an element for the field, if the document has it.
result<void> append_field(std::string& to, const json_cursor& block, std::string_view key) {
    auto field = block.find(key);
    if (!field) return {};
    auto text = field->as_string();
    if (!text) return text.error();
    if (!text->empty()) append_element(to, key, *text);
    return {};
}

/// The text of a document's source. Errors: also unsupported, for a PDF in whatever form.
result<std::string> parse_source(const json_cursor& block, const messages_limits& limits) {
    auto source = block.at("source");
    if (!source) return source.error();
    auto type = type_of(*source);
    if (!type) return type.error();
    if (*type == "text") return string_at(*source, "data");
    if (*type != "content") return only_text(block, "document");
    auto content = source->at("content");
    if (!content) return content.error();
    return parse_plain_text(*content, limits);
}

result<std::string> parse_document(const json_cursor& block, const messages_limits& limits) {
    auto content = parse_source(block, limits);
    if (!content) return content.error();
    std::string text = "<document>\n";
    for (std::string_view key : {"title", "context"})
        if (auto ok = append_field(text, block, key); !ok) return ok.error();
    append_element(text, "content", *content);
    return text + "</document>";
}

result<std::string> parse_search_result(const json_cursor& block, const messages_limits& limits) {
    std::string text = "<search_result>\n";
    for (std::string_view key : {"title", "source"})
        if (auto ok = append_field(text, block, key); !ok) return ok.error();
    auto list = block.at("content");
    if (!list) return list.error();
    auto content = parse_plain_text(*list, limits);
    if (!content) return content.error();
    append_element(text, "content", *content);
    return text + "</search_result>";
}

/// A block of text that a user or a tool hands over.
result<std::string> parse_text_block(const json_cursor& block, std::string_view type,
                                     const messages_limits& limits) {
    if (type == "text") return string_at(block, "text");
    if (type == "document") return parse_document(block, limits);
    if (type == "search_result") return parse_search_result(block, limits);
    return only_text(block, type);
}

/// A string, or a list of such blocks, joined by line breaks.
result<std::string> parse_result_content(const json_cursor& content,
                                         const messages_limits& limits) {
    if (!content.value().is_array()) return parse_plain_text(content, limits);
    auto count = parse_count(content, limits.blocks_per_message_max);
    if (!count) return count.error();
    std::string joined;
    for (std::size_t i = 0; i < *count; ++i) {
        json_cursor block = content.item(i);
        auto type = type_of(block);
        if (!type) return type.error();
        auto text = parse_text_block(block, *type, limits);
        if (!text) return text.error();
        if (i > 0) joined += '\n';
        joined += *text;
    }
    return joined;
}

result<engine::role> parse_role(const json_cursor& message) {
    auto field = message.at("role");
    if (!field) return field.error();
    auto role = field->as_string();
    if (!role) return role.error();
    if (*role == "user") return engine::role::user;
    if (*role == "assistant") return engine::role::assistant;
    if (*role == "system") return engine::role::system;
    return field->fail(errc::bad_value,
                       R"(must be "user", "assistant" or "system", is )" + quoted(*role));
}

result<engine::content_part> parse_tool_use(const json_cursor& block,
                                            const messages_limits& limits) {
    auto id = bounded_at(block, "id", limits.id_bytes_max);
    if (!id) return id.error();
    auto name = bounded_at(block, "name", limits.name_bytes_max);
    if (!name) return name.error();
    auto input = block.at("input");
    if (!input) return input.error();
    if (auto object = input->as_object(); !object) return object.error();
    return engine::content_part(engine::tool_call_part{*id, *name, to_text(input->value())});
}

result<engine::content_part> parse_tool_result(const json_cursor& block,
                                               const messages_limits& limits) {
    engine::tool_result_part part;
    auto id = bounded_at(block, "tool_use_id", limits.id_bytes_max);
    if (!id) return id.error();
    part.tool_call_id = *id;
    if (auto content = block.find("content")) {
        auto text = parse_result_content(*content, limits);
        if (!text) return text.error();
        part.text = std::move(*text);
    }
    if (auto flag = block.find("is_error")) {
        auto is_error = flag->as_bool();
        if (!is_error) return is_error.error();
        part.is_error = *is_error;
    }
    return engine::content_part(std::move(part));
}

failure misplaced(const json_cursor& block, std::string_view type, std::string_view owner) {
    std::string sentence = "a block of type ";
    sentence.append(quoted(type)).append(" belongs in a message of role ").append(quoted(owner));
    return block.fail(errc::bad_value, sentence);
}

/// Returns: nothing for a block that carries nothing a model reads.
result<std::optional<engine::content_part>> parse_block(const json_cursor& block, engine::role from,
                                                        const messages_limits& limits) {
    using part_or_nothing = std::optional<engine::content_part>;
    auto type = type_of(block);
    if (!type) return type.error();
    if (*type == "text") {
        auto text = string_at(block, "text");
        if (!text) return text.error();
        return part_or_nothing(engine::text_part{std::move(*text)});
    }
    if (*type == "document" || *type == "search_result") {
        if (from != engine::role::user) return misplaced(block, *type, "user");
        auto text = parse_text_block(block, *type, limits);
        if (!text) return text.error();
        return part_or_nothing(engine::text_part{std::move(*text)});
    }
    if (*type == "tool_result") {
        if (from != engine::role::user) return misplaced(block, *type, "user");
        auto part = parse_tool_result(block, limits);
        if (!part) return part.error();
        return part_or_nothing(std::move(*part));
    }
    bool is_assistants = *type == "thinking" || *type == "redacted_thinking" || *type == "tool_use";
    if (is_assistants && from != engine::role::assistant)
        return misplaced(block, *type, "assistant");
    if (*type == "thinking") {
        auto text = string_at(block, "thinking");
        if (!text) return text.error();
        if (auto field = block.find("signature")) {
            auto signature = field->as_string();
            if (!signature) return signature.error();
            auto carried = text->empty() ? carried_by(*signature) : std::nullopt;
            if (carried) return part_or_nothing(engine::thinking_part{std::move(*carried)});
            if (!may_be_signed(*text, *signature))
                return field->fail(errc::bad_value,
                                   "is of another text: thinking blocks must come back unchanged");
        }
        return part_or_nothing(engine::thinking_part{std::move(*text)});
    }
    if (*type == "redacted_thinking") return part_or_nothing();
    if (*type == "tool_use") {
        auto part = parse_tool_use(block, limits);
        if (!part) return part.error();
        return part_or_nothing(std::move(*part));
    }
    return only_text(block, *type);
}

/// Appends one wire message; one that mixes tool results with text becomes several.
result<void> append_message(const json_cursor& wire, const messages_limits& limits,
                            std::vector<engine::message>& messages) {
    if (auto object = wire.as_object(); !object) return object.error();
    auto role = parse_role(wire);
    if (!role) return role.error();
    auto content = wire.at("content");
    if (!content) return content.error();
    engine::message message{*role, {}};
    if (*role == engine::role::system || content->value().is_string()) {
        auto text = parse_plain_text(*content, limits);
        if (!text) return text.error();
        message.parts.push_back(engine::text_part{std::move(*text)});
        messages.push_back(std::move(message));
        return {};
    }
    if (!content->value().is_array()) {
        return content->fail(errc::bad_value,
                             std::string("expected a string or a list of content blocks, found ") +
                                 kind_name(content->value()));
    }
    auto count = parse_count(*content, limits.blocks_per_message_max);
    if (!count) return count.error();
    for (std::size_t i = 0; i < *count; ++i) {
        auto part = parse_block(content->item(i), *role, limits);
        if (!part) return part.error();
        if (!*part) continue;
        bool is_result = std::holds_alternative<engine::tool_result_part>(**part);
        engine::role from = is_result ? engine::role::tool : *role;
        if (from != message.from) {
            if (!message.parts.empty()) messages.push_back(std::move(message));
            message = engine::message{from, {}};
        }
        message.parts.push_back(std::move(**part));
    }
    messages.push_back(std::move(message));
    return {};
}

result<std::vector<engine::message>> parse_message_list(const json_cursor& root,
                                                        const messages_limits& limits) {
    auto list = root.at("messages");
    if (!list) return list.error();
    auto count = parse_count(*list, limits.messages_max);
    if (!count) return count.error();
    if (*count == 0) return list->fail(errc::bad_value, "at least one message is required");
    std::vector<engine::message> messages;
    messages.reserve(*count);
    for (std::size_t i = 0; i < *count; ++i)
        if (auto ok = append_message(list->item(i), limits, messages); !ok) return ok.error();
    return messages;
}

/// What the type says of a tool: all of it, for those that the vendor defines and the client runs.
result<engine::tool_definition> parse_tool_type(const json_cursor& tool) {
    auto type = tool.find("type");
    if (!type) return engine::tool_definition{};
    auto text = type->as_string();
    if (!text) return text.error();
    if (*text == "custom") return engine::tool_definition{};
    if (auto known = client_tool(*text)) return std::move(*known);
    return type->fail(errc::unsupported, "this server runs no tools of its own, found " +
                                             quoted(*text) + "; supported are custom tools and " +
                                             "the client's bash, text_editor and memory");
}

result<engine::tool_definition> parse_tool(const json_cursor& tool, const messages_limits& limits) {
    if (auto object = tool.as_object(); !object) return object.error();
    auto typed = parse_tool_type(tool);
    if (!typed) return typed.error();
    engine::tool_definition definition = std::move(*typed);
    const bool is_defined = !definition.parameters_json.empty();
    auto name = bounded_at(tool, "name", limits.name_bytes_max);
    if (!name) return name.error();
    if (!is_tool_name(*name))
        return tool.at("name")->fail(
            errc::bad_value, "may contain only letters, digits, - and _, is " + quoted(*name));
    definition.name = std::move(*name);
    if (auto flag = tool.find("strict")) {
        auto is_strict = flag->as_bool();
        if (!is_strict) return is_strict.error();
        definition.strict = *is_strict;
    }
    if (is_defined) return definition;
    if (auto description = tool.find("description")) {
        auto text = description->as_string();
        if (!text) return text.error();
        definition.description = std::string(*text);
    }
    auto schema = tool.at("input_schema");
    if (!schema) return schema.error();
    if (auto object = schema->as_object(); !object) return object.error();
    definition.parameters_json = to_text(schema->value());
    return definition;
}

result<std::vector<engine::tool_definition>> parse_tools(const json_cursor& root,
                                                         const messages_limits& limits) {
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
            return item.at("name")->fail(errc::bad_value, "tool names must be unique, found " +
                                                              quoted(tool->name) + " twice");
        tools.push_back(std::move(*tool));
    }
    return tools;
}

}  // namespace

result<engine::conversation> parse_conversation(const json_cursor& root,
                                                const messages_limits& limits) {
    engine::conversation chat;
    if (auto system = root.find("system")) {
        auto text = parse_plain_text(*system, limits, billing_line::dropped);
        if (!text) return text.error();
        chat.system = std::move(*text);
    }
    auto messages = parse_message_list(root, limits);
    if (!messages) return messages.error();
    chat.messages = std::move(*messages);
    auto tools = parse_tools(root, limits);
    if (!tools) return tools.error();
    chat.tools = std::move(*tools);
    return chat;
}

}  // namespace semantic::protocol::anthropic

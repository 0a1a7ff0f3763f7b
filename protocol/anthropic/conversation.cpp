#include "protocol/anthropic/conversation.hpp"

#include <boost/json.hpp>

#include <optional>
#include <string_view>
#include <utility>

#include "protocol/anthropic/client_tools.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace {

/// Clients match the vendor's words for a picture or a PDF that it cannot read, and go on without.
void only_text(const json_cursor& block, std::string_view type) {
    if (type == "image")
        return block.fail(errc::unsupported, "Could not process image: this model takes text only");
    if (type == "document")
        return block.fail(errc::unsupported,
                          "The PDF specified was not valid: this model takes text only");
    block.fail(errc::unsupported,
               "only text is supported here, found a block of type " + quoted(type));
}

void wrong_content(const json_cursor& content, std::string_view blocks) {
    std::string sentence = "expected a string or a list of ";
    content.fail(errc::bad_value,
                 sentence.append(blocks).append(" blocks, found ") + kind_name(content.value()));
}

enum class billing_line { kept, dropped };

/// A string, or a list of text blocks joined by line breaks. A block that is nothing but a dropped
/// billing line leaves nothing behind.
std::string parse_plain_text(const json_cursor& content, const messages_limits& limits,
                             billing_line billing = billing_line::kept) {
    auto cleaned = [&](std::string text) {
        return billing == billing_line::dropped ? without_billing_line(std::move(text)) : text;
    };
    if (content.value().is_string()) return cleaned(std::string(content.as_string()));
    if (!content.value().is_array()) wrong_content(content, "text");
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    std::string joined;
    bool is_first = true;
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor block = content.item(i);
        const std::string type = string_at(block, "type");
        if (type != "text") only_text(block, type);
        const std::string text = string_at(block, "text");
        const std::string rest = cleaned(text);
        if (rest.empty() && !text.empty()) continue;
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
void append_field(std::string& to, const json_cursor& block, std::string_view key) {
    if (!block.find(key)) return;
    const std::string text = string_at(block, key);
    if (!text.empty()) append_element(to, key, text);
}

/// The text of a document's source. A PDF, in whatever form, is none.
std::string parse_source(const json_cursor& block, const messages_limits& limits) {
    const json_cursor source = block.at("source");
    const std::string type = string_at(source, "type");
    if (type == "text") return string_at(source, "data");
    if (type == "content") return parse_plain_text(source.at("content"), limits);
    only_text(block, "document");
    return {};
}

std::string parse_document(const json_cursor& block, const messages_limits& limits) {
    const std::string content = parse_source(block, limits);
    std::string text = "<document>\n";
    for (std::string_view key : {"title", "context"}) append_field(text, block, key);
    append_element(text, "content", content);
    return text + "</document>";
}

std::string parse_search_result(const json_cursor& block, const messages_limits& limits) {
    std::string text = "<search_result>\n";
    for (std::string_view key : {"title", "source"}) append_field(text, block, key);
    append_element(text, "content", parse_plain_text(block.at("content"), limits));
    return text + "</search_result>";
}

/// A block of text that a user or a tool hands over.
std::string parse_text_block(const json_cursor& block, std::string_view type,
                             const messages_limits& limits) {
    if (type == "text") return string_at(block, "text");
    if (type == "document") return parse_document(block, limits);
    if (type == "search_result") return parse_search_result(block, limits);
    only_text(block, type);
    return {};
}

/// A string, or a list of such blocks, joined by line breaks.
std::string parse_result_content(const json_cursor& content, const messages_limits& limits) {
    if (!content.value().is_array()) return parse_plain_text(content, limits);
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    std::string joined;
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor block = content.item(i);
        if (i > 0) joined += '\n';
        joined += parse_text_block(block, string_at(block, "type"), limits);
    }
    return joined;
}

engine::role parse_role(const json_cursor& message) {
    const json_cursor field = message.at("role");
    const std::string_view role = field.as_string();
    if (role == "user") return engine::role::user;
    if (role == "assistant") return engine::role::assistant;
    if (role == "system") return engine::role::system;
    field.fail(errc::bad_value, R"(must be "user", "assistant" or "system", is )" + quoted(role));
    return engine::role::user;
}

engine::content_part parse_tool_use(const json_cursor& block, const messages_limits& limits) {
    engine::tool_call_part part;
    part.id = bounded_at(block, "id", limits.id_bytes_max);
    part.name = bounded_at(block, "name", limits.name_bytes_max);
    const json_cursor input = block.at("input");
    input.as_object();
    part.arguments_json = to_text(input.value());
    return part;
}

engine::content_part parse_tool_result(const json_cursor& block, const messages_limits& limits) {
    engine::tool_result_part part;
    part.tool_call_id = bounded_at(block, "tool_use_id", limits.id_bytes_max);
    if (auto content = block.find("content")) part.text = parse_result_content(*content, limits);
    part.is_error = flag_at(block, "is_error");
    return part;
}

engine::content_part parse_thinking(const json_cursor& block) {
    const std::string text = string_at(block, "thinking");
    if (auto field = block.find("signature")) {
        const std::string_view signature = field->as_string();
        auto carried = text.empty() ? carried_by(signature) : std::nullopt;
        if (carried) return engine::thinking_part{std::move(*carried)};
        if (!may_be_signed(text, signature))
            field->fail(errc::bad_value,
                        "is of another text: thinking blocks must come back unchanged");
    }
    return engine::thinking_part{text};
}

/// Whose messages have blocks of this type; absent: both may.
std::optional<engine::role> owner_of(std::string_view type) {
    for (const char* of_user : {"document", "search_result", "tool_result"})
        if (type == of_user) return engine::role::user;
    for (const char* of_assistant : {"thinking", "redacted_thinking", "tool_use"})
        if (type == of_assistant) return engine::role::assistant;
    return std::nullopt;
}

/// Returns: nothing for a block that carries nothing a model reads.
std::optional<engine::content_part> parse_block(const json_cursor& block, engine::role from,
                                                const messages_limits& limits) {
    const std::string type = string_at(block, "type");
    if (auto owner = owner_of(type); owner && *owner != from) {
        const char* name = *owner == engine::role::user ? "\"user\"" : "\"assistant\"";
        block.fail(errc::bad_value,
                   "a block of type " + quoted(type) + " belongs in a message of role " + name);
    }
    if (type == "tool_result") return parse_tool_result(block, limits);
    if (type == "thinking") return parse_thinking(block);
    if (type == "redacted_thinking") return std::nullopt;
    if (type == "tool_use") return parse_tool_use(block, limits);
    return engine::text_part{parse_text_block(block, type, limits)};
}

/// Appends one wire message; one that mixes tool results with text becomes several.
void append_message(const json_cursor& wire, const messages_limits& limits,
                    std::vector<engine::message>& messages) {
    wire.as_object();
    const engine::role role = parse_role(wire);
    const json_cursor content = wire.at("content");
    engine::message message{role, {}};
    if (role == engine::role::system || content.value().is_string()) {
        message.parts.push_back(engine::text_part{parse_plain_text(content, limits)});
        messages.push_back(std::move(message));
        return;
    }
    if (!content.value().is_array()) wrong_content(content, "content");
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    for (std::size_t i = 0; i < count; ++i) {
        auto part = parse_block(content.item(i), role, limits);
        if (!part) continue;
        bool is_result = std::holds_alternative<engine::tool_result_part>(*part);
        engine::role from = is_result ? engine::role::tool : role;
        if (from != message.from) {
            if (!message.parts.empty()) messages.push_back(std::move(message));
            message = engine::message{from, {}};
        }
        message.parts.push_back(std::move(*part));
    }
    messages.push_back(std::move(message));
}

std::vector<engine::message> parse_message_list(const json_cursor& root,
                                                const messages_limits& limits) {
    const json_cursor list = root.at("messages");
    const std::size_t count = parse_count(list, limits.messages_max);
    if (count == 0) list.fail(errc::bad_value, "at least one message is required");
    std::vector<engine::message> messages;
    messages.reserve(count);
    for (std::size_t i = 0; i < count && list.ok(); ++i)
        append_message(list.item(i), limits, messages);
    return messages;
}

/// A tool of the vendor's that the client runs: all but its name is known by its type. Returns:
/// nothing for a custom one.
std::optional<engine::tool_definition> parse_client_tool(const json_cursor& tool,
                                                         const messages_limits& limits) {
    auto type = tool.find("type");
    if (!type || type->as_string() == "custom") return std::nullopt;
    auto known = client_tool(type->as_string());
    if (!known) {
        type->fail(errc::unsupported, "this server runs no tools of its own, found " +
                                          quoted(type->as_string()) +
                                          "; supported are custom tools and the client's bash, "
                                          "text_editor and memory");
        return std::nullopt;
    }
    const std::string schema = known->parameters_json;
    auto named = parse_function(tool, "input_schema", schema.c_str(), limits);
    known->name = std::move(named.name);
    known->strict = named.strict;
    return known;
}

engine::tool_definition parse_tool(const json_cursor& tool, const messages_limits& limits) {
    tool.as_object();
    if (auto known = parse_client_tool(tool, limits)) return std::move(*known);
    return parse_function(tool, "input_schema", nullptr, limits);
}

}  // namespace

engine::conversation parse_conversation(const json_cursor& root, const messages_limits& limits) {
    engine::conversation chat;
    if (auto system = root.find("system"))
        chat.system = parse_plain_text(*system, limits, billing_line::dropped);
    chat.messages = parse_message_list(root, limits);
    const tool_form form{[&](const json_cursor& item) { return parse_tool(item, limits); },
                         [](const json_cursor& item) { return item.at("name"); }};
    chat.tools = parse_tools(root, limits, form);
    return chat;
}

}  // namespace semantic::protocol::anthropic

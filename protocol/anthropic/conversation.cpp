#include "protocol/anthropic/conversation.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "protocol/anthropic/client_tools.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace {

/// Clients match the vendor's words for a picture or a PDF that it cannot read, and go on without
/// it.
void only_text(const json_cursor& block, std::string_view type) {
    block.fail(errc::unsupported,
               "only text is supported here, found a block of type " + quoted(type));
}

void wrong_content(const json_cursor& content, std::string_view blocks) {
    std::string sentence = "expected a string or a list of ";
    content.fail(errc::bad_value,
                 sentence.append(blocks).append(" blocks, found ") + kind_name(content.value()));
}

enum class billing_line { kept, dropped };

/// Blocks of one content that are not told; complains where they are all that the newest message
/// has.
class untold_blocks {
  public:
    explicit untold_blocks(const history_position& position) : position_(position) {}
    void add(std::size_t index, std::string_view type) {
        position_.left_out.add(type);
        first_ = std::min(first_, index);
    }
    void check(const json_cursor& content, bool is_empty) const {
        if (!position_.is_newest || !is_empty || first_ == none) return;
        const json_cursor block = content.item(first_);
        only_text(block, string_at(block, "type"));
    }

  private:
    static constexpr std::size_t none = std::string::npos;
    const history_position& position_;
    std::size_t first_ = none;
};

/// A string, or a list of text blocks joined by line breaks. A block that is nothing but a dropped
/// billing line leaves nothing behind.
std::string parse_plain_text(const json_cursor& content, const messages_limits& limits,
                             const history_position& position,
                             billing_line billing = billing_line::kept) {
    auto cleaned = [&](std::string text) {
        return billing == billing_line::dropped ? without_billing_line(std::move(text)) : text;
    };
    if (content.value().is_string()) return cleaned(std::string(content.as_string()));
    if (!content.value().is_array()) wrong_content(content, "text");
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    std::string joined;
    bool is_first = true;
    untold_blocks untold(position);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor block = content.item(i);
        const std::string type = string_at(block, "type");
        if (type != "text" && type != "image") {
            untold.add(i, type);
            continue;
        }
        const std::string text =
            type == "text" ? string_at(block, "text") : read_medium(block, "image", position);
        const std::string rest = cleaned(text);
        if (rest.empty() && !text.empty()) continue;
        if (!is_first) joined += '\n';
        is_first = false;
        joined += rest;
    }
    untold.check(content, is_first);
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

/// The text of a document's source; nothing where it is a PDF, in whatever form.
std::optional<std::string> parse_source(const json_cursor& block, const messages_limits& limits,
                                        const history_position& position) {
    const json_cursor source = block.at("source");
    const std::string type = string_at(source, "type");
    if (type == "text") return string_at(source, "data");
    if (type != "content") return std::nullopt;
    return parse_plain_text(source.at("content"), limits, position);
}

std::string parse_document(const json_cursor& block, const messages_limits& limits,
                           const history_position& position) {
    const auto content = parse_source(block, limits, position);
    if (!content) return read_medium(block, "PDF", position);
    std::string text = "<document>\n";
    for (std::string_view key : {"title", "context"}) append_field(text, block, key);
    append_element(text, "content", *content);
    return text + "</document>";
}

std::string parse_search_result(const json_cursor& block, const messages_limits& limits,
                                const history_position& position) {
    std::string text = "<search_result>\n";
    for (std::string_view key : {"title", "source"}) append_field(text, block, key);
    append_element(text, "content", parse_plain_text(block.at("content"), limits, position));
    return text + "</search_result>";
}

/// A block of text that a user or a tool hands over. Returns: nothing for another one.
std::optional<std::string> parse_text_block(const json_cursor& block, std::string_view type,
                                            const messages_limits& limits,
                                            const history_position& position) {
    if (type == "text") return string_at(block, "text");
    if (type == "document") return parse_document(block, limits, position);
    if (type == "search_result") return parse_search_result(block, limits, position);
    // A search for tools has found one, which stands among the request's.
    if (type == "tool_reference")
        return "The tool " + string_at(block, "tool_name") + " can be called now.";
    if (type == "image") return read_medium(block, "image", position);
    return std::nullopt;
}

/// A string, or a list of such blocks, joined by line breaks.
std::string parse_result_content(const json_cursor& content, const messages_limits& limits,
                                 const history_position& position) {
    if (!content.value().is_array()) return parse_plain_text(content, limits, position);
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    std::string joined;
    bool is_first = true;
    untold_blocks untold(position);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor block = content.item(i);
        const std::string type = string_at(block, "type");
        const auto text = parse_text_block(block, type, limits, position);
        if (!text) {
            untold.add(i, type);
            continue;
        }
        if (!std::exchange(is_first, false)) joined += '\n';
        joined += *text;
    }
    untold.check(content, is_first);
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
    part.id = bounded_at(block, "id", limits.call_id_bytes_max);
    part.name = read_call_name(block, limits.name_bytes_max);
    auto input = block.find("input");
    part.arguments_json = input ? read_arguments(*input, limits.json) : "{}";
    return part;
}

engine::content_part parse_tool_result(const json_cursor& block, const messages_limits& limits,
                                       const history_position& position) {
    engine::tool_result_part part;
    part.tool_call_id = bounded_at(block, "tool_use_id", limits.call_id_bytes_max);
    if (auto content = block.find("content"))
        part.text = parse_result_content(*content, limits, position);
    part.is_error = flag_at(block, "is_error");
    return part;
}

/// Tools that the vendor's servers ran, and what they found.
bool is_of_hosted_tool(std::string_view type) {
    return type.ends_with("_tool_use") || type.ends_with("_tool_result");
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

/// Returns: nothing for a block that is left out.
std::optional<engine::content_part> parse_block(const json_cursor& block, engine::role from,
                                                const messages_limits& limits,
                                                const history_position& position) {
    const std::string type = string_at(block, "type");
    if (auto owner = owner_of(type); owner && *owner != from) {
        const char* name = *owner == engine::role::user ? "\"user\"" : "\"assistant\"";
        block.fail(errc::bad_value,
                   "a block of type " + quoted(type) + " belongs in a message of role " + name);
    }
    if (type == "tool_result") return parse_tool_result(block, limits, position);
    if (type == "thinking") return parse_thinking(block);
    if (type == "tool_use") return parse_tool_use(block, limits);
    if (is_of_hosted_tool(type)) return engine::text_part{told_in_a_line(type, block.value())};
    // What a conversation was before stands in it, in fewer words.
    auto summary = type == "compaction" ? block.find("content") : std::nullopt;
    if (summary && summary->value().is_string())
        return engine::text_part{std::string(summary_head) + std::string(summary->as_string())};
    auto text = parse_text_block(block, type, limits, position);
    if (!text) return std::nullopt;
    return engine::text_part{*std::move(text)};
}

/// Reads the messages of one conversation; one that mixes tool results with text becomes several.
class message_reader {
  public:
    message_reader(const messages_limits& limits, left_out_names& left_out)
        : limits_(limits), position_{left_out} {}

    void add(const json_cursor& wire, bool is_newest) {
        wire.as_object();
        position_.is_newest = is_newest;
        const engine::role role = parse_role(wire);
        // Settings that change in the middle of a conversation have no content.
        if (role == engine::role::system && !wire.find("content") && wire.find("output_config"))
            return position_.left_out.add("output_config");
        const json_cursor content = wire.at("content");
        if (role == engine::role::system) return add_system(content);
        if (content.value().is_string()) return add_text(role, std::string(content.as_string()));
        if (!content.value().is_array()) wrong_content(content, "content");
        add_blocks(content, role);
    }
    std::vector<engine::message> take() { return std::move(messages_); }

  private:
    void add_text(engine::role role, std::string text) {
        messages_.push_back({role, {engine::text_part{std::move(text)}}});
    }
    /// One that has nothing to read, such as tools that come and go, is none.
    void add_system(const json_cursor& content) {
        position_.is_newest = false;
        std::string text = parse_plain_text(content, limits_, position_);
        if (!text.empty() || content.value().is_string())
            add_text(engine::role::system, std::move(text));
    }
    void add_blocks(const json_cursor& content, engine::role role) {
        const std::size_t count = parse_count(content, limits_.blocks_per_message_max);
        engine::message message{role, {}};
        untold_blocks untold(position_);
        bool is_empty = true;
        for (std::size_t i = 0; i < count; ++i) {
            const json_cursor block = content.item(i);
            auto part = parse_block(block, role, limits_, position_);
            const std::string type = part ? std::string() : string_at(block, "type");
            is_empty = is_empty && !part && type != "redacted_thinking";
            if (!part) {
                untold.add(i, type);
                continue;
            }
            const bool is_result = std::holds_alternative<engine::tool_result_part>(*part);
            const engine::role from = is_result ? engine::role::tool : role;
            if (from != message.from) {
                if (!message.parts.empty()) messages_.push_back(std::move(message));
                message = engine::message{from, {}};
            }
            message.parts.push_back(std::move(*part));
        }
        untold.check(content, is_empty);
        messages_.push_back(std::move(message));
    }

    const messages_limits& limits_;
    history_position position_;
    std::vector<engine::message> messages_;
};

message_kind kind_of(const json_cursor& message) {
    const auto field = message.find("role");
    const boost::json::value role = field ? field->value() : boost::json::value();
    if (role == "assistant") return message_kind::of_assistant;
    if (role == "system") return message_kind::of_system;
    return message_kind::of_user;
}

std::vector<engine::message> parse_message_list(const json_cursor& root,
                                                const messages_limits& limits,
                                                left_out_names& left_out) {
    const json_cursor list = root.at("messages");
    const std::size_t count = parse_count(list, limits.messages_max);
    if (count == 0) list.fail(errc::bad_value, "at least one message is required");
    const std::size_t newest =
        newest_position(count, [&](std::size_t index) { return kind_of(list.item(index)); });
    message_reader reader(limits, left_out);
    for (std::size_t i = 0; i < count && list.ok(); ++i) reader.add(list.item(i), i >= newest);
    return reader.take();
}

/// A tool of the vendor's that the client runs: all but its name is known by its type.
engine::tool_definition parse_client_tool(const json_cursor& tool, engine::tool_definition known,
                                          const messages_limits& limits) {
    const std::string schema = known.parameters_json;
    auto named = parse_function(tool, "input_schema", schema.c_str(), limits);
    known.name = std::move(named.name);
    known.strict = named.strict;
    return known;
}

/// Returns: nothing for a tool that the vendor's servers run.
std::optional<engine::tool_definition> parse_tool(const json_cursor& tool,
                                                  const messages_limits& limits,
                                                  left_out_names& left_out) {
    tool.as_object();
    auto type = tool.find("type");
    if (!type || type->as_string() == "custom")
        return parse_function(tool, "input_schema", nullptr, limits);
    if (auto known = client_tool(type->as_string()))
        return parse_client_tool(tool, *std::move(known), limits);
    left_out.add(type->as_string());
    return std::nullopt;
}

}  // namespace

engine::conversation parse_conversation(const json_cursor& root, const messages_limits& limits,
                                        left_out_names& left_out) {
    engine::conversation chat;
    // It is every request's anew: a client that sends a picture there has to be told.
    const history_position system_position{left_out, true};
    if (auto system = root.find("system"))
        chat.system = parse_plain_text(*system, limits, system_position, billing_line::dropped);
    chat.messages = parse_message_list(root, limits, left_out);
    const tool_form form{
        [&](const json_cursor& item) { return parse_tool(item, limits, left_out); },
        [](const json_cursor& item) { return item.at("name"); }};
    chat.tools = parse_tools(root, limits, form);
    return chat;
}

}  // namespace semantic::protocol::anthropic

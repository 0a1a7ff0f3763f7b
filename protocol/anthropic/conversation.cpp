// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/conversation.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "protocol/anthropic/client_tools.hpp"
#include "protocol/history/tool_roster.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace {

/// Complains of a block that is not text. Clients match these words of the vendor for a picture or
/// a PDF, drop the block and send the request again.
void only_text(const json_cursor& block, std::string_view type) {
    block.fail(errc::unsupported,
               "only text is supported here, found a block of type " + quoted(type));
}

/// Complains of a content that is neither a string nor a list of `blocks` blocks.
void wrong_content(const json_cursor& content, std::string_view blocks) {
    std::string sentence = "expected a string or a list of ";
    content.fail(errc::bad_value,
                 sentence.append(blocks).append(" blocks, found ") + kind_name(content.value()));
}

enum class billing_line { kept, dropped };

/// Collects the blocks of one content that are left out of the prompt. Complains where the newest
/// message consists of nothing else.
class unshown_blocks {
  public:
    explicit unshown_blocks(const history_position& position) : position_(position) {}
    void add(std::size_t index, std::string_view type) {
        position_.left_out.add(type);
        first_ = std::min(first_, index);
    }
    /// `is_empty`: no block of the content was read.
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

/// Reads a string, or a list of text blocks, which are joined by line breaks. With
/// billing_line::dropped the vendor's billing line is removed, and with it a block that has nothing
/// else. `is_no_text`: whether blocks of a type are read elsewhere and skipped here; may be null.
std::string parse_plain_text(const json_cursor& content, const messages_limits& limits,
                             const history_position& position,
                             billing_line billing = billing_line::kept,
                             bool (*is_no_text)(std::string_view type) = nullptr) {
    auto cleaned = [&](std::string text) {
        return billing == billing_line::dropped ? without_billing_line(std::move(text)) : text;
    };
    if (content.value().is_string()) return cleaned(std::string(content.as_string()));
    if (!content.value().is_array()) wrong_content(content, "text");
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    std::string joined;
    bool is_first = true;
    unshown_blocks unshown(position);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor block = content.item(i);
        const std::string type = string_at(block, "type");
        if (is_no_text != nullptr && is_no_text(type)) continue;
        if (type != "text" && type != "image") {
            unshown.add(i, type);
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
    unshown.check(content, is_first);
    return joined;
}

/// Appends <tag>text</tag> and a line break, the form in which models are used to see documents.
void append_element(std::string& to, std::string_view tag, std::string_view text) {
    to.append("<").append(tag).append(">").append(text).append("</").append(tag).append(">\n");
}

/// Appends an element for the field `key`, if the document has it and it is not empty.
void append_field(std::string& to, const json_cursor& block, std::string_view key) {
    if (!block.find(key)) return;
    const std::string text = string_at(block, key);
    if (!text.empty()) append_element(to, key, text);
}

/// Returns: the text of a document's source; nothing where it is a PDF, in whatever form.
std::optional<std::string> parse_source(const json_cursor& block, const messages_limits& limits,
                                        const history_position& position) {
    const json_cursor source = block.at("source");
    const std::string type = string_at(source, "type");
    if (type == "text") return string_at(source, "data");
    if (type != "content") return std::nullopt;
    return parse_plain_text(source.at("content"), limits, position);
}

/// Returns: a document as text in elements; for a PDF the line that replaces it.
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

/// Appends the text of a block that a user or a tool sends: text, document, search result,
/// reference to a tool, picture. Returns: false for a block of another type, of which nothing is
/// appended.
bool append_text_block(const json_cursor& block, std::string_view type,
                       const messages_limits& limits, const history_position& position,
                       tool_roster& tools, std::string& to) {
    if (type == "text")
        to += string_at(block, "text");
    else if (type == "document")
        to += parse_document(block, limits, position);
    else if (type == "search_result")
        to += parse_search_result(block, limits, position);
    else if (type == "tool_reference")
        tools.admit(bounded_at(block, "tool_name", limits.name_bytes_max), to);
    else if (type == "image")
        to += read_medium(block, "image", position);
    else
        return false;
    return true;
}

/// Reads a tool's result: a string, or a list of such blocks, joined by line breaks.
std::string parse_result_content(const json_cursor& content, const messages_limits& limits,
                                 const history_position& position, tool_roster& tools) {
    if (!content.value().is_array()) return parse_plain_text(content, limits, position);
    const std::size_t count = parse_count(content, limits.blocks_per_message_max);
    std::string joined;
    bool is_first = true;
    unshown_blocks unshown(position);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor block = content.item(i);
        const std::string type = string_at(block, "type");
        const std::size_t before = joined.size();
        if (!is_first) joined += '\n';
        if (append_text_block(block, type, limits, position, tools, joined)) {
            is_first = false;
            continue;
        }
        joined.resize(before);
        unshown.add(i, type);
    }
    unshown.check(content, is_first);
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

/// Reads a block with the model's call of a tool.
engine::content_part parse_tool_use(const json_cursor& block, const messages_limits& limits) {
    engine::tool_call_part part;
    part.id = bounded_at(block, "id", limits.call_id_bytes_max);
    part.name = read_call_name(block, limits.name_bytes_max);
    auto input = block.find("input");
    part.arguments_json = input ? read_arguments(*input, limits.json) : "{}";
    return part;
}

/// Reads a block with the result of a call, which may also define tools (`tools`).
engine::content_part parse_tool_result(const json_cursor& block, const messages_limits& limits,
                                       const history_position& position, tool_roster& tools) {
    engine::tool_result_part part;
    part.tool_call_id = bounded_at(block, "tool_use_id", limits.call_id_bytes_max);
    if (auto content = block.find("content"))
        part.text = parse_result_content(*content, limits, position, tools);
    part.is_error = flag_at(block, "is_error");
    return part;
}

/// Whether the block is a call that the vendor's own servers ran, or its result.
bool is_of_hosted_tool(std::string_view type) {
    return type.ends_with("_tool_use") || type.ends_with("_tool_result");
}

/// Reads a thinking block. Its text may come in its signature (thinking_signature.hpp). Complains
/// where the text is not the one that was signed.
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

/// Returns: the role whose messages may have blocks of this type; nothing where all may.
std::optional<engine::role> owner_of(std::string_view type) {
    for (const char* of_user : {"document", "search_result", "tool_result"})
        if (type == of_user) return engine::role::user;
    for (const char* of_assistant : {"thinking", "redacted_thinking", "tool_use"})
        if (type == of_assistant) return engine::role::assistant;
    return std::nullopt;
}

/// Reads one block of a message of role `from`. Returns: nothing for a block that is left out.
std::optional<engine::content_part> parse_block(const json_cursor& block, const std::string& type,
                                                engine::role from, const messages_limits& limits,
                                                const history_position& position,
                                                tool_roster& tools) {
    if (auto owner = owner_of(type); owner && *owner != from) {
        const char* name = *owner == engine::role::user ? "\"user\"" : "\"assistant\"";
        block.fail(errc::bad_value,
                   "a block of type " + quoted(type) + " belongs in a message of role " + name);
    }
    if (type == "tool_result") return parse_tool_result(block, limits, position, tools);
    if (type == "thinking") return parse_thinking(block);
    if (type == "tool_use") return parse_tool_use(block, limits);
    if (is_of_hosted_tool(type)) return engine::text_part{shown_in_a_line(type, block.value())};
    engine::text_part text;
    if (!append_text_block(block, type, limits, position, tools, text.text)) return std::nullopt;
    return text;
}

bool is_tool_change(std::string_view type) {
    return type == "tool_addition" || type == "tool_removal";
}

std::optional<engine::tool_definition> parse_tool(const json_cursor& tool,
                                                  const messages_limits& limits,
                                                  left_out_names& left_out);

/// Reads a block tool_addition or tool_removal and appends to `text` what it says to the model.
/// Returns: false for one that is left out.
bool read_tool_change(const json_cursor& block, std::string_view type,
                      const messages_limits& limits, left_out_names& left_out, tool_roster& tools,
                      std::string& text) {
    const json_cursor tool = block.at("tool");
    const std::string kind = string_at(tool, "type");
    if (kind == "tool_reference") {
        const std::string name = bounded_at(tool, "name", limits.name_bytes_max);
        type == "tool_addition" ? tools.admit(name, text) : tools.withdraw(name, text);
        return true;
    }
    if (kind != "tool_definition" || type != "tool_addition") {
        left_out.add(kind);
        return false;
    }
    auto defined = parse_tool(tool.at("definition"), limits, left_out);
    if (defined && tool.ok() && !tools.define(*std::move(defined), text))
        tool.fail(errc::bad_value, "there may be " + std::to_string(tool_roster::tools_max) +
                                       " tools, with those in messages");
    return defined.has_value();
}

/// Reads the messages of one conversation in order. A message that mixes tool results with text
/// becomes several messages.
class message_reader {
  public:
    /// `last_of_user`: index of the last message of role "user".
    message_reader(const messages_limits& limits, left_out_names& left_out, tool_roster& tools,
                   std::size_t last_of_user)
        : limits_(limits), position_{left_out}, tools_(tools), last_of_user_(last_of_user) {}

    /// `wire`: the message in the body, number `index`; `is_newest`: it is to be answered.
    void add(const json_cursor& wire, std::size_t index, bool is_newest) {
        wire.as_object();
        position_.is_newest = is_newest;
        const engine::role role = parse_role(wire);
        if (role == engine::role::system) return add_system(wire, index < last_of_user_);
        const json_cursor content = wire.at("content");
        if (content.value().is_string()) return add_text(role, std::string(content.as_string()));
        if (!content.value().is_array()) wrong_content(content, "content");
        add_blocks(content, role);
    }
    /// Returns: all messages, and last the texts that disappear at the user's next message.
    std::vector<engine::message> take() {
        if (fading_.empty()) return std::move(messages_);
        // Put at the end, before the beginning of an answer: when it disappears, only what follows
        // it has to be computed again.
        const bool begins_answer =
            !messages_.empty() && messages_.back().from == engine::role::assistant;
        messages_.insert(messages_.end() - (begins_answer ? 1 : 0),
                         {engine::role::system, {engine::text_part{std::move(fading_)}}});
        return std::move(messages_);
    }

  private:
    void add_text(engine::role role, std::string text) {
        messages_.push_back({role, {engine::text_part{std::move(text)}}});
        tools_.settle(messages_.size() - 1, 0);
    }
    /// Appends a line, after a line break where the text is not empty.
    static void join(std::string& to, std::string_view line) {
        if (line.empty()) return;
        if (!to.empty()) to += '\n';
        to += line;
    }

    /// Reads a system message in the middle. One without anything to read adds no message.
    /// `has_later_user`: a message of the user follows, so a text that disappears there is gone.
    void add_system(const json_cursor& wire, bool has_later_user) {
        // What a system message has other than text is left out and never refused.
        position_.is_newest = false;
        const auto content = wire.find("content");
        const auto config = wire.find("output_config");
        std::string text;
        if (content && content->value().is_array()) read_tool_changes(*content, text);
        const bool has_changes = !text.empty() || tools_.has_pending();
        if (config) add_effort(*config, text);
        // Complains that the field is missing.
        if (!content && !config) wire.at("content");
        const std::string said = content ? parse_system_text(*content) : std::string();
        const auto clear = wire.find("clear_at");
        const bool fades = clear && clear->as_string() == "next_user_message";
        if (fades && !has_later_user) join(fading_, said);
        if (!fades && has_changes && !said.empty()) text += '\n';
        if (!fades) text += said;
        // A string is a message even where it is empty, as in the other roles.
        const bool is_said = content && content->value().is_string() && !fades;
        if (!text.empty() || tools_.has_pending() || is_said)
            add_text(engine::role::system, std::move(text));
    }
    std::string parse_system_text(const json_cursor& content) {
        if (!content.value().is_array()) return parse_plain_text(content, limits_, position_);
        return parse_plain_text(content, limits_, position_, billing_line::kept, is_tool_change);
    }
    /// Appends what the changes of tools in a content say, a line each.
    void read_tool_changes(const json_cursor& content, std::string& text) {
        const std::size_t count = parse_count(content, limits_.blocks_per_message_max);
        for (std::size_t i = 0; i < count; ++i) {
            const json_cursor block = content.item(i);
            const std::string type = string_at(block, "type");
            if (is_tool_change(type)) add_tool_change(block, type, text);
        }
    }
    void add_tool_change(const json_cursor& block, std::string_view type, std::string& text) {
        const std::size_t before = text.size();
        if (!text.empty() || tools_.has_pending()) text += '\n';
        if (!read_tool_change(block, type, limits_, position_.left_out, tools_, text))
            text.resize(before);
    }
    /// Appends a line about the reasoning effort. It is written here, so that the beginning of the
    /// prompt, which memories match, stays as it is.
    void add_effort(const json_cursor& config, std::string& text) {
        config.as_object();
        const auto effort = config.find("effort");
        if (!effort) return;
        const std::string said = parse_bounded(*effort, limits_.name_bytes_max);
        join(text, "Reasoning effort from here on: " + said);
    }

    /// Reads a summary that replaces all messages before it.
    void add_compaction(const json_cursor& block, engine::message& message) {
        std::string text(summary_head);
        text += string_at(block, "content");
        messages_.clear();
        fading_.clear();
        const auto changes = block.find("tool_changes");
        const std::size_t count =
            changes ? parse_count(*changes, limits_.blocks_per_message_max) : 0;
        if (!tools_.restart(changes.has_value(), text))
            return block.fail(errc::bad_value, tool_roster::too_many_restarts());
        for (std::size_t i = 0; i < count; ++i) {
            const json_cursor change = changes->item(i);
            const std::string type = string_at(change, "type");
            if (is_tool_change(type)) add_tool_change(change, type, text);
        }
        engine::text_part part{std::move(text)};
        if (message.from == engine::role::user) {
            message.parts = {std::move(part)};
            tools_.settle(0, 0);
        } else {
            // Templates want the user's message first, and an answer's other blocks follow the
            // summary.
            add_text(engine::role::user, std::move(part.text));
            message.parts.clear();
        }
    }

    /// Reads a list of blocks. Tool results become messages of role `tool`.
    void add_blocks(const json_cursor& content, engine::role role) {
        const std::size_t count = parse_count(content, limits_.blocks_per_message_max);
        engine::message message{role, {}};
        unshown_blocks unshown(position_);
        bool is_empty = true;
        bool is_summed_up = false;
        for (std::size_t i = 0; i < count; ++i) {
            const json_cursor block = content.item(i);
            const std::string type = string_at(block, "type");
            const auto summary = type == "compaction" ? block.find("content") : std::nullopt;
            if (summary && summary->value().is_string()) {
                message.from = role;
                add_compaction(block, message);
                is_empty = false;
                is_summed_up = true;
                continue;
            }
            auto part = parse_block(block, type, role, limits_, position_, tools_);
            // Sealed reasoning is left out as well, but the vendor's answers may consist of it.
            is_empty = is_empty && !part && type != "redacted_thinking";
            if (!part) {
                unshown.add(i, type);
                continue;
            }
            const bool is_result = std::holds_alternative<engine::tool_result_part>(*part);
            const engine::role from = is_result ? engine::role::tool : role;
            if (from != message.from) {
                if (!message.parts.empty()) messages_.push_back(std::move(message));
                message = engine::message{from, {}};
            }
            tools_.settle(messages_.size(), message.parts.size());
            message.parts.push_back(std::move(*part));
        }
        unshown.check(content, is_empty);
        if (!is_summed_up || !message.parts.empty()) messages_.push_back(std::move(message));
    }

    const messages_limits& limits_;
    history_position position_;
    tool_roster& tools_;
    const std::size_t last_of_user_;
    std::vector<engine::message> messages_;
    std::string fading_;  // shown until the next message of the user's
};

/// Returns: whose message it is, before it is checked.
message_kind kind_of(const json_cursor& message) {
    const auto field = message.find("role");
    const boost::json::value role = field ? field->value() : boost::json::value();
    if (role == "assistant") return message_kind::of_assistant;
    if (role == "system") return message_kind::of_system;
    return message_kind::of_user;
}

bool is_of_user(const json_cursor& message) {
    const auto field = message.find("role");
    return field && field->value() == "user";
}

/// Reads all messages. Those from the newest one on are checked more strictly than history.
std::vector<engine::message> parse_message_list(const json_cursor& root,
                                                const messages_limits& limits,
                                                left_out_names& left_out, tool_roster& tools) {
    const json_cursor list = root.at("messages");
    const std::size_t count = parse_count(list, limits.messages_max);
    if (count == 0) list.fail(errc::bad_value, "at least one message is required");
    const std::size_t newest =
        newest_position(count, [&](std::size_t index) { return kind_of(list.item(index)); });
    std::size_t last_of_user = count;
    while (last_of_user > 0 && !is_of_user(list.item(last_of_user - 1))) --last_of_user;
    message_reader reader(limits, left_out, tools, last_of_user == 0 ? 0 : last_of_user - 1);
    for (std::size_t i = 0; i < count && list.ok(); ++i) reader.add(list.item(i), i, i >= newest);
    std::vector<engine::message> messages = reader.take();
    if (messages.empty())
        list.fail(errc::bad_value, "at least one message with something to read is required");
    return messages;
}

/// Reads a tool that the vendor defines and the client runs. `known`: its definition by type, of
/// which the client may change the name and `strict`.
engine::tool_definition parse_client_tool(const json_cursor& tool, engine::tool_definition known,
                                          const messages_limits& limits) {
    const std::string schema = known.parameters_json;
    auto named = parse_function(tool, "input_schema", schema.c_str(), limits);
    known.name = std::move(named.name);
    known.strict = named.strict;
    return known;
}

/// Reads one tool. Returns: nothing for one that the vendor's servers run, which is left out by
/// name.
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

namespace {

/// Whether this is a search that the vendor's servers run to find deferred tools for the model.
/// This server has none, so with it all tools are in the prompt from the start.
bool is_hosted_search(const json_cursor& tool) {
    auto type = tool.find("type");
    return type && type->value().is_string() && type->as_string().starts_with("tool_search_tool_");
}

/// Reads the tools: those in the prompt from the start, and those deferred until a search or result
/// brings them.
engine::tool_lists parse_tool_lists(const json_cursor& root, const messages_limits& limits,
                                    left_out_names& left_out) {
    bool is_searched_for = false;
    std::set<std::string> deferred;
    const tool_form form{[&](const json_cursor& item) {
                             is_searched_for = is_searched_for || is_hosted_search(item);
                             auto tool = parse_tool(item, limits, left_out);
                             if (tool && flag_at(item, "defer_loading"))
                                 deferred.insert(tool->name);
                             return tool;
                         },
                         [](const json_cursor& item) { return item.at("name"); }};
    std::vector<engine::tool_definition> all = parse_tools(root, limits, form);
    engine::tool_lists lists;
    for (engine::tool_definition& each : all) {
        const bool waits = !is_searched_for && deferred.contains(each.name);
        (waits ? lists.deferred : lists.told).push_back(std::move(each));
    }
    return lists;
}

}  // namespace

engine::conversation parse_conversation(const json_cursor& root, const messages_limits& limits,
                                        left_out_names& left_out,
                                        std::optional<engine::tool_lists> of_thread) {
    engine::conversation chat;
    // A system text counts as the newest message (true): every request sends it, and a client that
    // puts a picture there needs the error.
    const history_position system_position{left_out, true};
    if (auto system = root.find("system"))
        chat.system = parse_plain_text(*system, limits, system_position, billing_line::dropped);
    tool_roster tools(of_thread ? *std::move(of_thread) : parse_tool_lists(root, limits, left_out));
    chat.messages = parse_message_list(root, limits, left_out, tools);
    tools.hand_over(chat);
    return chat;
}

}  // namespace semantic::protocol::anthropic

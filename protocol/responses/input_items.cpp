// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/input_items.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "protocol/openai/common_fields.hpp"
#include "protocol/responses/compaction.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

using engine::role;

role parse_role(const json_cursor& item) {
    const json_cursor field = item.at("role");
    const std::string_view text = field.as_string();
    if (text == "user") return role::user;
    if (text == "assistant") return role::assistant;
    if (text == "system" || text == "developer") return role::system;
    field.fail(errc::bad_value,
               R"(must be "user", "assistant", "system" or "developer", is )" + quoted(text));
    // The complaint refuses the request, whatever the role here.
    return role::user;
}

/// Returns: the text of one part of a content list; a refusal counts as what the model said.
/// Nothing for an unknown type.
std::optional<std::string> parse_part(const json_cursor& part, const history_position& position) {
    const std::string type = string_at(part, "type");
    for (const char* text : {"input_text", "output_text", "text", "summary_text", "reasoning_text"})
        if (type == text) return string_at(part, "text");
    if (type == "refusal") return string_at(part, "refusal");
    const std::string_view medium = medium_of(type);
    if (medium.empty()) return std::nullopt;
    return read_medium(part, medium, position);
}

/// Reads a text, or a list of parts, as texts. Complains of too many parts.
std::vector<std::string> parse_content(const json_cursor& content, const response_limits& limits,
                                       const history_position& position) {
    return openai::parse_texts(content, limits.parts_per_item_max, position,
                               [&](const json_cursor& part) { return parse_part(part, position); });
}

/// Reads what a tool returned: a text, a list of parts, or any JSON of the tool's own form.
std::string parse_output(const json_cursor& output, const response_limits& limits,
                         const history_position& position) {
    const json::value& value = output.value();
    if (value.is_string()) return std::string(output.as_string());
    const auto is_part = [](const json::value& each) {
        return each.is_object() && each.get_object().contains("type");
    };
    if (value.is_array() && std::ranges::all_of(value.get_array(), is_part))
        return openai::joined(parse_content(output, limits, position));
    if (is_part(value) && !medium_of(string_at(output, "type")).empty())
        return read_medium(output, medium_of(string_at(output, "type")), position);
    return to_text(value);
}

/// Whether the item has this member, as a text that is not empty.
bool has_text(const json_cursor& item, const char* key) {
    auto field = item.find(key);
    return field && field->value().is_string() && !field->as_string().empty();
}

/// Whether the item is a call that the client ran, of whatever tool: "local_shell_call",
/// "apply_patch_call".
bool is_clients_call(const json_cursor& item, std::string_view type) {
    return type.ends_with("_call") && has_text(item, "call_id");
}

/// Whether the item is the output of a call that the client ran.
bool is_clients_output(const json_cursor& item, std::string_view type) {
    return type.ends_with("_output") && has_text(item, "call_id");
}

/// Returns: the arguments of such a call, under whichever name its type has them.
std::string arguments_of(const json_cursor& item, const response_limits& limits) {
    for (const char* key : {"arguments", "action", "operation"})
        if (auto field = item.find(key)) return read_arguments(*field, limits.json);
    if (has_text(item, "input")) return text_arguments(string_at(item, "input"));
    return readable_members(item.value());
}

/// Returns: the texts of a reasoning item's `content`, or the text that its `encrypted_content`
/// carries.
std::string parse_reasoning(const json_cursor& item, const response_limits& limits) {
    std::string text;
    auto content = item.find("content");
    const std::size_t count = content ? parse_count(*content, limits.parts_per_item_max) : 0;
    for (std::size_t i = 0; i < count; ++i) text += string_at(content->item(i), "text");
    auto sealed = item.find("encrypted_content");
    if (!text.empty() || !sealed) return text;
    return carried_by(sealed->as_string()).value_or(std::string());
}

/// Returns: the bytes of a text without blanks at its ends, which templates may leave out.
std::size_t bytes_of(std::string_view text) {
    constexpr std::string_view blanks = " \t\n\r\f\v";
    const std::size_t begin = text.find_first_not_of(blanks);
    return begin == std::string_view::npos ? 0 : text.find_last_not_of(blanks) - begin + 1;
}

/// Builds the messages of a conversation from items.
class conversation_builder {
  public:
    conversation_builder(const response_limits& limits, const input_context& context)
        : limits_(limits), context_(context), position_{context.left_out} {}

    /// Call before the first item that is to be answered: pictures in it and after it are refused.
    void begin_newest() { position_.is_newest = true; }

    /// The first system text of the conversation becomes its system text; all others stay messages
    /// where they are. They are not joined to the first, because a template may put the tools
    /// between them: then a prompt with the first text only, which was computed ahead, would not be
    /// the beginning of this one.
    void add_system(std::string text) {
        text_bytes_ += bytes_of(text);
        // Empty instructions are none.
        if (opens_ && text.empty()) return;
        if (opens_ && chat_.system.empty()) {
            chat_.system = std::move(text);
            return;
        }
        chat_.messages.push_back({role::system, {engine::text_part{std::move(text)}}});
    }

    void add_user(std::string text) {
        text_bytes_ += bytes_of(text);
        chat_.messages.push_back({role::user, {engine::text_part{std::move(text)}}});
    }

    void add(const json_cursor& item) {
        add_item(item);
        check_length(item);
    }

    /// Adds an item that is stored on this server and not in the body. The budget is charged before
    /// it is copied.
    void add_kept(const json_cursor& item) {
        storage::work_budget* budget = context_.kept.budget;
        if (budget != nullptr) budget->charge_bytes(memory_of(item.value()));
        add(item);
    }

    /// Complains where the conversation is certainly too long for the model. A token has at most
    /// bytes_per_token_max bytes, so the bytes of all texts give a lower bound of the tokens.
    void check_length(const json_cursor& place) {
        if (limits_.bytes_per_token_max == 0 || excess_) return;
        const auto least = static_cast<std::int64_t>(text_bytes_ / limits_.bytes_per_token_max);
        if (least < limits_.context_tokens_max) return;
        excess_ = engine::prompt_excess{least, limits_.context_tokens_max, true};
        place.fail(errc::prompt_too_long, "the conversation has at least " + std::to_string(least) +
                                              " tokens; this model and cache budget hold " +
                                              std::to_string(limits_.context_tokens_max) +
                                              " with their answer");
    }

    /// Replaces everything so far by a summary, and says which tools were added meanwhile.
    void replace_all(std::string_view summary, const json_cursor& place) {
        std::string text = std::string(summary_head).append(summary);
        chat_.messages.clear();
        text_bytes_ = bytes_of(chat_.system);
        if (!context_.roster.restart(false, text))
            return place.fail(errc::bad_value, tool_roster::too_many_restarts());
        add_user(std::move(text));
        context_.roster.settle(0, 0);
    }

    read_input take() { return {std::move(chat_), excess_}; }

  private:
    /// Adds an item by its type; without one it is a message. All but messages and references end
    /// the opening, whose first system text becomes that of the conversation.
    void add_item(const json_cursor& item) {
        item.as_object();
        const std::string type = item.find("type") ? string_at(item, "type") : "message";
        if (type == "message") return add_message(item);
        if (type == "item_reference") return add_referenced(item);
        opens_ = false;
        if (type == "reasoning") return add_reasoning(item);
        if (type == "function_call") {
            auto arguments = item.find("arguments");
            return add_call(item, name_of_call(item),
                            arguments ? read_arguments(*arguments, limits_.json) : "{}");
        }
        if (type == "custom_tool_call")
            return add_call(item, name_of_call(item), text_arguments(item.at("input").as_string()));
        if (type == "function_call_output" || type == "custom_tool_call_output")
            return add_output(item, parse_output(item.at("output"), limits_, position_));
        if (type == "compaction") return add_compaction(item);
        if (type == "additional_tools") return add_tools(item);
        if (type == "tool_search_output") return add_search_output(item);
        if (type == "configuration_update") return add_configuration(item);
        add_other(item, type);
    }

    /// Adds the kept item that a reference names. Kept items are never references, so this does not
    /// recurse further.
    void add_referenced(const json_cursor& item) {
        const std::string id = bounded_at(item, "id", limits_.id_bytes_max);
        const json::value* found = context_.kept.item_of ? context_.kept.item_of(id) : nullptr;
        if (found == nullptr)
            return item.at("id").fail(errc::not_found, "Item with id " + quoted(id) + " not found.",
                                      "item_not_found");
        std::optional<failure> complaint;
        add_kept(json_cursor(*found, item.path(), complaint));
        // At the reference: the kept item has no place in the body.
        if (complaint) item.fail(complaint->code, complaint->message);
    }
    /// Adds a message. What the model said joins its last message; system texts are counted in
    /// add_system().
    void add_message(const json_cursor& item) {
        const role from = parse_role(item);
        std::vector<std::string> texts = parse_content(item.at("content"), limits_, position_);
        if (from != role::system)
            for (const std::string& text : texts) text_bytes_ += bytes_of(text);
        if (from == role::system) return add_system(openai::joined(texts));
        opens_ = false;
        if (from == role::user) chat_.messages.push_back({role::user, {}});
        auto& parts = from == role::user ? chat_.messages.back().parts : said().parts;
        for (std::string& text : texts) parts.push_back(engine::text_part{std::move(text)});
    }
    void add_reasoning(const json_cursor& item) {
        std::string text = parse_reasoning(item, limits_);
        if (!text.empty()) said().parts.push_back(engine::thinking_part{std::move(text)});
    }
    /// Adds a summary that this server made. One of another server cannot be read and is left out.
    void add_compaction(const json_cursor& item) {
        const auto sealed = item.find("encrypted_content");
        const auto summary = sealed ? open_summary(sealed->as_string()) : std::nullopt;
        if (!summary) return position_.left_out.add("compaction");
        if (summary->replaces_all) return replace_all(summary->text, item);
        add_user(std::string(summary_head) + summary->text);
    }
    /// The model's name of the called tool, flat where it is in a namespace.
    std::string name_of_call(const json_cursor& item) const {
        const std::string name = read_call_name(item, limits_.name_bytes_max);
        auto space = item.find("namespace");
        if (!space) return name;
        return context_.names.flat_of(std::string(space->as_string()), name);
    }
    void add_call(const json_cursor& item, std::string name, std::string arguments) {
        said().parts.push_back(
            engine::tool_call_part{bounded_at(item, "call_id", limits_.call_id_bytes_max),
                                   std::move(name), std::move(arguments)});
    }
    void add_output(const json_cursor& item, std::string text) {
        std::string id = bounded_at(item, "call_id", limits_.call_id_bytes_max);
        text_bytes_ += bytes_of(text);
        chat_.messages.push_back(
            {role::tool, {engine::tool_result_part{std::move(id), std::move(text), false}}});
    }
    /// Reads the item's `tools`. Returns: what is to be said about them in the prompt.
    std::string text_of_tools(const json_cursor& item) {
        std::string text;
        const auto list = item.find("tools");
        if (!list || context_.tools == nullptr) return text;
        for (engine::tool_definition& each : context_.tools->read_late(*list)) {
            if (!text.empty() || context_.roster.has_pending()) text += '\n';
            if (list->ok() && !context_.roster.define(std::move(each), text))
                list->fail(errc::bad_value, "there may be " +
                                                std::to_string(tool_roster::tools_max) +
                                                " tools, with those in items");
        }
        return text;
    }
    /// Adds a system message of its own, even at the start of the input, so that the system text
    /// stays as it is.
    void add_notice(std::string text) {
        if (text.empty() && !context_.roster.has_pending()) return;
        chat_.messages.push_back({role::system, {engine::text_part{std::move(text)}}});
        context_.roster.settle(chat_.messages.size() - 1, 0);
    }
    void add_tools(const json_cursor& item) { add_notice(text_of_tools(item)); }
    /// Adds the result of a search for tools: a tool's result where it answers a call, else a
    /// notice of new tools.
    void add_search_output(const json_cursor& item) {
        std::string text = text_of_tools(item);
        if (!has_text(item, "call_id")) return add_notice(std::move(text));
        // A search without tools that can be read here: the model sees what the item has.
        if (text.empty() && !context_.roster.has_pending()) text = readable_members(item.value());
        add_output(item, std::move(text));
        context_.roster.settle(chat_.messages.size() - 1, 0);
    }
    /// Adds a change of the reasoning effort as a notice in the prompt.
    void add_configuration(const json_cursor& item) {
        const auto reasoning = item.find("reasoning");
        const auto effort = reasoning ? reasoning->find("effort") : std::nullopt;
        if (!effort) return position_.left_out.add("configuration_update");
        add_notice("Reasoning effort from here on: " +
                   parse_bounded(*effort, limits_.name_bytes_max));
    }
    /// Adds an item of a tool that has a type of its own, or leaves out one of an unknown type.
    void add_other(const json_cursor& item, const std::string& type) {
        if (is_clients_output(item, type)) {
            auto output = item.find("output");
            return add_output(item, output ? parse_output(*output, limits_, position_)
                                           : readable_members(item.value()));
        }
        if (is_clients_call(item, type)) {
            constexpr std::string_view call = "_call";
            return add_call(item, type.substr(0, type.size() - call.size()),
                            arguments_of(item, limits_));
        }
        if (type == "image_generation_call") return add_said(left_out_line("image"));
        if (type.ends_with("_call")) return add_said(shown_in_a_line(type, item.value()));
        // compaction_trigger is handled where it is the last item (request.hpp).
        if (type != "compaction_trigger") position_.left_out.add(type);
    }
    void add_said(std::string text) { said().parts.push_back(engine::text_part{std::move(text)}); }
    /// Returns: the model's message that the next item belongs to, a new one where the last message
    /// is not the model's.
    engine::message& said() {
        if (chat_.messages.empty() || chat_.messages.back().from != role::assistant)
            chat_.messages.push_back({role::assistant, {}});
        return chat_.messages.back();
    }

    const response_limits& limits_;
    const input_context& context_;
    history_position position_;
    engine::conversation chat_;
    std::size_t text_bytes_ = 0;  // of all texts but reasoning and calls
    std::optional<engine::prompt_excess> excess_;
    bool opens_ = true;  // nothing but system texts so far
};

}  // namespace

std::string text_arguments(std::string_view text) { return to_text(json::object{{"input", text}}); }

namespace {

/// The kind of an item, which decides from where on pictures are refused.
message_kind kind_of(const json_cursor& item) {
    const auto type = item.find("type");
    const bool has_type = type && type->value().is_string();
    if (has_type && type->as_string().ends_with("_output")) return message_kind::result;
    const auto field = item.find("role");
    const json::value role = field ? field->value() : json::value();
    if (role == "system" || role == "developer") return message_kind::of_system;
    return message_kind::of_user;
}

}  // namespace

read_input parse_input(const json_cursor& root, const input_context& context,
                       const response_limits& limits) {
    conversation_builder chat(limits, context);
    if (auto instructions = root.find("instructions")) {
        chat.add_system(std::string(instructions->as_string()));
        chat.check_length(*instructions);
    }
    std::size_t earlier_count = 0;
    if (context.earlier.hand_over && root.ok()) {
        std::optional<failure> complaint;
        const auto found = context.earlier.hand_over([&](const json::value& each) {
            ++earlier_count;
            if (!complaint) chat.add_kept(json_cursor(each, "", complaint));
        });
        if (!found) complaint = found.error();
        // hand_over is only set together with the field's place.
        if (complaint)
            context.earlier.place->fail(complaint->code, complaint->message, complaint->error_code);
    }
    const auto input = root.find("input");
    // Without earlier items the input is required.
    if (!input && earlier_count == 0) root.at("input");
    if (input && input->value().is_string()) {
        chat.add_user(std::string(input->as_string()));
        chat.check_length(*input);
    } else if (input) {
        const std::size_t count = parse_count(*input, limits.items_max);
        const std::size_t newest =
            newest_position(count, [&](std::size_t index) { return kind_of(input->item(index)); });
        for (std::size_t i = 0; i < count && input->ok(); ++i) {
            if (i == newest) chat.begin_newest();
            chat.add(input->item(i));
        }
    }
    if (context.kept.summary && root.ok()) chat.replace_all(*context.kept.summary, root);
    read_input read = chat.take();
    engine::conversation& asked = read.chat;
    asked.system = without_billing_line(std::move(asked.system));
    const auto is_system = [](const engine::message& each) { return each.from == role::system; };
    if (context.is_asked && std::all_of(asked.messages.begin(), asked.messages.end(), is_system))
        root.place("input").fail(errc::bad_value, "at least one message is required");
    return read;
}

void check_items(const json_cursor& list, const response_limits& limits) {
    // Nothing is kept, no tool is read, and no answer is wanted: only the items' forms are checked.
    const earlier_items nothing;
    const kept_sources none;
    const tool_names names;
    left_out_names left_out;
    tool_roster roster;
    const input_context context{nothing, none, names, left_out, roster, nullptr, false};
    // Made for its complaints alone.
    conversation_builder chat(limits, context);
    const std::size_t count = parse_count(list, limits.items_max);
    for (std::size_t i = 0; i < count && list.ok(); ++i) chat.add(list.item(i));
}

}  // namespace semantic::protocol::responses

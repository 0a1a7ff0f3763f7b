#include "protocol/responses/input_items.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "protocol/openai/common_fields.hpp"
#include "protocol/thinking_signature.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::responses {

namespace {

using engine::role;

// In front of a summary that stands for a conversation.
constexpr std::string_view compaction_head =
    "This is a summary of our conversation up to here:\n\n";

role parse_role(const json_cursor& item) {
    const json_cursor field = item.at("role");
    const std::string_view text = field.as_string();
    if (text == "user") return role::user;
    if (text == "assistant") return role::assistant;
    if (text == "system" || text == "developer") return role::system;
    field.fail(errc::bad_value,
               R"(must be "user", "assistant", "system" or "developer", is )" + quoted(text));
    return role::user;
}

/// One part of a content list. What a model refused to say is what it said.
std::string parse_part(const json_cursor& part) {
    const std::string type = string_at(part, "type");
    if (type == "input_text" || type == "output_text" || type == "text")
        return string_at(part, "text");
    if (type == "refusal") return string_at(part, "refusal");
    if (type == "input_image")
        part.fail(errc::unsupported, "Could not process image: this model takes text only");
    part.fail(errc::unsupported,
              "only text is supported here, found a part of type " + quoted(type));
    return {};
}

std::vector<std::string> parse_content(const json_cursor& content, const response_limits& limits) {
    return openai::parse_texts(content, limits.parts_per_item_max, parse_part);
}

/// The texts of a reasoning item's `content`, or what its seal carries.
std::string parse_reasoning(const json_cursor& item, const response_limits& limits) {
    std::string text;
    auto content = item.find("content");
    const std::size_t count = content ? parse_count(*content, limits.parts_per_item_max) : 0;
    for (std::size_t i = 0; i < count; ++i) text += string_at(content->item(i), "text");
    auto sealed = item.find("encrypted_content");
    if (!text.empty() || !sealed) return text;
    return carried_by(sealed->as_string()).value_or(std::string());
}

/// Puts messages together from items.
class conversation_builder {
  public:
    conversation_builder(const response_limits& limits, const referenced_item& item_of)
        : limits_(limits), item_of_(item_of) {}

    /// The first is the system text. Others stay where they are, and are not joined to it: tools
    /// may stand between in a prompt, so that one with the first text alone, which was read ahead,
    /// would no longer begin the prompt that follows it.
    void add_system(std::string text) {
        if (opens_ && text.empty()) return;
        if (opens_ && chat_.system.empty()) {
            chat_.system = std::move(text);
            return;
        }
        chat_.messages.push_back({role::system, {engine::text_part{std::move(text)}}});
    }

    void add_user(std::string text) {
        chat_.messages.push_back({role::user, {engine::text_part{std::move(text)}}});
    }

    void add(const json_cursor& item) {
        item.as_object();
        const std::string type = item.find("type") ? string_at(item, "type") : "message";
        if (type == "message") return add_message(item);
        if (type == "item_reference") return add_referenced(item);
        opens_ = false;
        if (type == "reasoning") return add_reasoning(item);
        if (type == "function_call")
            return add_call(item, openai::parse_arguments(item.at("arguments"), limits_.json));
        if (type == "custom_tool_call")
            return add_call(item, text_arguments(item.at("input").as_string()));
        if (type == "compaction") return add_compaction(item);
        if (type == "function_call_output" || type == "custom_tool_call_output")
            return add_output(item);
        const json_cursor place = item.at("type");
        place.fail(errc::unsupported, "items of type " + quoted(type) + " are not supported");
    }

    engine::conversation take() { return std::move(chat_); }

  private:
    /// No item that can be referred to is a reference itself.
    void add_referenced(const json_cursor& item) {
        const std::string id = bounded_at(item, "id", limits_.id_bytes_max);
        const boost::json::value found = item_of_ ? item_of_(id) : nullptr;
        if (found.is_null())
            return item.at("id").fail(errc::not_found, "Item with id " + quoted(id) + " not found.",
                                      "item_not_found");
        std::optional<failure> complaint;
        add(json_cursor(found, item.path(), complaint));
        if (complaint) item.fail(complaint->code, complaint->what);
    }
    void add_message(const json_cursor& item) {
        const role from = parse_role(item);
        std::vector<std::string> texts = parse_content(item.at("content"), limits_);
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
    /// What this server made of a conversation stands for it.
    void add_compaction(const json_cursor& item) {
        const auto text = carried_by(item.at("encrypted_content").as_string());
        if (!text)
            return item.at("encrypted_content")
                .fail(errc::bad_value, "no compaction of this server's, or damaged");
        add_user(std::string(compaction_head) + *text);
    }
    void add_call(const json_cursor& item, std::string arguments_json) {
        said().parts.push_back(engine::tool_call_part{
            bounded_at(item, "call_id", limits_.id_bytes_max),
            bounded_at(item, "name", limits_.name_bytes_max), std::move(arguments_json)});
    }
    void add_output(const json_cursor& item) {
        std::string id = bounded_at(item, "call_id", limits_.id_bytes_max);
        std::string text = openai::joined(parse_content(item.at("output"), limits_));
        chat_.messages.push_back(
            {role::tool, {engine::tool_result_part{std::move(id), std::move(text), false}}});
    }
    /// The message of the model that an item is part of.
    engine::message& said() {
        if (chat_.messages.empty() || chat_.messages.back().from != role::assistant)
            chat_.messages.push_back({role::assistant, {}});
        return chat_.messages.back();
    }

    const response_limits& limits_;
    const referenced_item& item_of_;
    engine::conversation chat_;
    bool opens_ = true;  // nothing but system texts so far
};

}  // namespace

std::string text_arguments(std::string_view text) {
    return to_text(boost::json::object{{"input", text}});
}

engine::conversation parse_input(const json_cursor& root, const boost::json::array& earlier,
                                 const referenced_item& item_of, bool is_asked,
                                 const response_limits& limits) {
    conversation_builder chat(limits, item_of);
    if (auto instructions = root.find("instructions"))
        chat.add_system(std::string(instructions->as_string()));
    std::optional<failure> complaint;
    for (const boost::json::value& each : earlier)
        chat.add(json_cursor(each, "previous_response_id", complaint));
    if (complaint) root.place("previous_response_id").fail(complaint->code, complaint->what);
    const auto input = root.find("input");
    // Behind what was said before nothing need be said.
    if (!input && earlier.empty()) root.at("input");
    if (input && input->value().is_string()) {
        chat.add_user(std::string(input->as_string()));
    } else if (input) {
        const std::size_t count = parse_count(*input, limits.items_max);
        for (std::size_t i = 0; i < count && input->ok(); ++i) chat.add(input->item(i));
    }
    engine::conversation asked = chat.take();
    asked.system = without_billing_line(std::move(asked.system));
    const auto is_system = [](const engine::message& each) { return each.from == role::system; };
    if (is_asked && std::all_of(asked.messages.begin(), asked.messages.end(), is_system))
        root.place("input").fail(errc::bad_value, "at least one message is required");
    return asked;
}

}  // namespace semantic::protocol::responses

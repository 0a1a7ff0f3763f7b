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

/// Of a text as it stands in every prompt: templates may leave out the blanks around it.
std::size_t bytes_of(std::string_view text) {
    constexpr std::string_view blanks = " \t\n\r\f\v";
    const std::size_t begin = text.find_first_not_of(blanks);
    return begin == std::string_view::npos ? 0 : text.find_last_not_of(blanks) - begin + 1;
}

/// Puts messages together from items.
class conversation_builder {
  public:
    conversation_builder(const response_limits& limits, const kept_sources& kept)
        : limits_(limits), kept_(kept) {}

    /// The first is the system text. Others stay where they are, and are not joined to it: tools
    /// may stand between in a prompt, so that one with the first text alone, which was read ahead,
    /// would no longer begin the prompt that follows it.
    void add_system(std::string text) {
        text_bytes_ += bytes_of(text);
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

    /// One that does not stand in the body: it is paid for before it is copied.
    void add_kept(const json_cursor& item) {
        if (kept_.budget != nullptr) kept_.budget->charge_bytes(memory_of(item.value()));
        add(item);
    }

    /// Every text that a prompt is made of is in it, so that too many bytes are too many tokens
    /// whatever they are.
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

    read_input take() { return {std::move(chat_), excess_}; }

  private:
    void add_item(const json_cursor& item) {
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

    /// No item that can be referred to is a reference itself.
    void add_referenced(const json_cursor& item) {
        const std::string id = bounded_at(item, "id", limits_.id_bytes_max);
        const boost::json::value* found = kept_.item_of ? kept_.item_of(id) : nullptr;
        if (found == nullptr)
            return item.at("id").fail(errc::not_found, "Item with id " + quoted(id) + " not found.",
                                      "item_not_found");
        std::optional<failure> complaint;
        add_kept(json_cursor(*found, item.path(), complaint));
        if (complaint) item.fail(complaint->code, complaint->what);
    }
    void add_message(const json_cursor& item) {
        const role from = parse_role(item);
        std::vector<std::string> texts = parse_content(item.at("content"), limits_);
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
        text_bytes_ += bytes_of(text);
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
    const kept_sources& kept_;
    engine::conversation chat_;
    std::size_t text_bytes_ = 0;  // of all texts but reasoning and calls
    std::optional<engine::prompt_excess> excess_;
    bool opens_ = true;  // nothing but system texts so far
};

}  // namespace

std::string text_arguments(std::string_view text) {
    return to_text(boost::json::object{{"input", text}});
}

read_input parse_input(const json_cursor& root, const earlier_items& earlier,
                       const kept_sources& kept, bool is_asked, const response_limits& limits) {
    conversation_builder chat(limits, kept);
    if (auto instructions = root.find("instructions")) {
        chat.add_system(std::string(instructions->as_string()));
        chat.check_length(*instructions);
    }
    std::size_t earlier_count = 0;
    if (earlier.hand_over && root.ok()) {
        std::optional<failure> complaint;
        const auto found = earlier.hand_over([&](const boost::json::value& each) {
            ++earlier_count;
            if (!complaint) chat.add_kept(json_cursor(each, "", complaint));
        });
        if (!found) complaint = found.error();
        if (complaint) earlier.place->fail(complaint->code, complaint->what, complaint->error_code);
    }
    const auto input = root.find("input");
    // Behind what was said before nothing need be said.
    if (!input && earlier_count == 0) root.at("input");
    if (input && input->value().is_string()) {
        chat.add_user(std::string(input->as_string()));
        chat.check_length(*input);
    } else if (input) {
        const std::size_t count = parse_count(*input, limits.items_max);
        for (std::size_t i = 0; i < count && input->ok(); ++i) chat.add(input->item(i));
    }
    read_input read = chat.take();
    engine::conversation& asked = read.chat;
    asked.system = without_billing_line(std::move(asked.system));
    const auto is_system = [](const engine::message& each) { return each.from == role::system; };
    if (is_asked && std::all_of(asked.messages.begin(), asked.messages.end(), is_system))
        root.place("input").fail(errc::bad_value, "at least one message is required");
    return read;
}

void check_items(const json_cursor& list, const response_limits& limits) {
    const kept_sources none;
    conversation_builder chat(limits, none);
    const std::size_t count = parse_count(list, limits.items_max);
    for (std::size_t i = 0; i < count && list.ok(); ++i) chat.add(list.item(i));
}

}  // namespace semantic::protocol::responses

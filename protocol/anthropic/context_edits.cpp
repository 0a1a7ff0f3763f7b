// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/context_edits.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_set>
#include <utility>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace json = boost::json;

namespace {

constexpr std::string_view cleared_words = "[Old tool result content cleared]";
constexpr std::size_t edits_max = 16;
// Where results are cleared if the client names no trigger: the vendor's number.
constexpr std::int64_t trigger_tokens = 100'000;

/// Reads the number `value` of a field.
std::int64_t count_at(const json_cursor& field) {
    return field.at("value").as_integer(0, std::numeric_limits<std::int32_t>::max());
}

/// Reads {"type": TYPE, "value": n} at `key`. Returns: n; nothing where the field is absent or has
/// another type.
std::optional<std::int64_t> measure(const json_cursor& edit, const char* key,
                                    std::string_view type) {
    auto field = edit.find(key);
    if (!field || field->value().is_string() || string_at(*field, "type") != type)
        return std::nullopt;
    return count_at(*field);
}

/// Reads a list of tools' names.
std::set<std::string> names_at(const json_cursor& list, const request_limits& limits) {
    std::set<std::string> names;
    const std::size_t count = parse_count(list, limits.tools_max);
    for (std::size_t i = 0; i < count; ++i)
        names.insert(parse_bounded(list.item(i), limits.name_bytes_max));
    return names;
}

/// Reads an edit that clears results of tools: above which size, how many stay, which tools are
/// excluded.
clear_tool_uses parse_clear_tool_uses(const json_cursor& edit, const request_limits& limits) {
    clear_tool_uses clear;
    clear.above_tokens = measure(edit, "trigger", "input_tokens");
    if (auto uses = measure(edit, "trigger", "tool_uses"))
        clear.above_uses = static_cast<std::size_t>(*uses);
    if (!clear.above_tokens && !clear.above_uses) clear.above_tokens = trigger_tokens;
    if (auto kept = measure(edit, "keep", "tool_uses"))
        clear.kept = static_cast<std::size_t>(*kept);
    clear.clears_at_least = measure(edit, "clear_at_least", "input_tokens").value_or(0);
    if (auto names = edit.find("exclude_tools")) clear.excluded = names_at(*names, limits);
    auto inputs = edit.find("clear_tool_inputs");
    if (inputs && inputs->value().is_array())
        clear.clears_inputs_of = names_at(*inputs, limits);
    else if (inputs)
        clear.clears_all_inputs = inputs->as_bool();
    return clear;
}

/// Reads an edit that clears reasoning: of how many turns it stays.
clear_thinking parse_clear_thinking(const json_cursor& edit) {
    clear_thinking clear;
    auto keep = edit.find("keep");
    if (!keep) return clear;
    const bool is_all =
        keep->value() == "all" || (keep->value().is_object() && string_at(*keep, "type") == "all");
    if (is_all)
        clear.kept.reset();
    else if (auto turns = measure(edit, "keep", "thinking_turns"))
        clear.kept = static_cast<std::size_t>(*turns);
    return clear;
}

/// Reads an edit that replaces the conversation by a summary.
compact parse_compact(const json_cursor& edit) {
    compact asked;
    asked.above_tokens = measure(edit, "trigger", "input_tokens").value_or(asked.above_tokens);
    asked.pauses = flag_at(edit, "pause_after_compaction");
    if (edit.find("instructions")) asked.instructions = string_at(edit, "instructions");
    return asked;
}

}  // namespace

context_edits parse_context_edits(const json_cursor& root, const request_limits& limits,
                                  left_out_names& left_out) {
    context_edits edits;
    auto management = root.find("context_management");
    if (!management) return edits;
    management->as_object();
    edits.is_asked = true;
    auto list = management->find("edits");
    const std::size_t count = list ? parse_count(*list, edits_max) : 0;
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor edit = list->item(i);
        const std::string type = string_at(edit, "type");
        if (type == "clear_tool_uses_20250919")
            edits.list.emplace_back(parse_clear_tool_uses(edit, limits));
        else if (type == "clear_thinking_20251015")
            edits.list.emplace_back(parse_clear_thinking(edit));
        else if (type == "compact_20260112")
            edits.list.emplace_back(parse_compact(edit));
        else
            left_out.add(type);
    }
    return edits;
}

namespace {

/// Returns: an upper bound of the prompt's tokens, without a tokenizer: a token has at least one
/// byte, and a template adds little to each message. So most prompts need no exact count.
std::int64_t most_tokens(const engine::conversation& chat) {
    constexpr std::size_t around_message = 64;
    constexpr std::size_t around_all = 4096;
    std::size_t bytes = around_all + chat.system.size();
    // JSON counts double, since a template may write it with more escapes.
    for (const engine::tool_definition& tool : chat.tools)
        bytes += around_message + tool.name.size() + tool.description.size() +
                 2 * tool.parameters_json.size();
    for (const engine::placed_tool& each : chat.placed_tools)
        bytes += around_message + each.tool.name.size() + each.tool.description.size() +
                 2 * each.tool.parameters_json.size();
    const auto bytes_of = [](const auto& part) -> std::size_t {
        if constexpr (requires { part.arguments_json; })
            return part.name.size() + 2 * part.arguments_json.size();
        else
            return part.text.size();
    };
    for (const engine::message& each : chat.messages)
        for (const engine::content_part& part : each.parts)
            bytes += around_message + std::visit(bytes_of, part);
    return static_cast<std::int64_t>(bytes);
}

/// Applies edits to one conversation, and counts its tokens where it must.
class context_editor {
  public:
    context_editor(engine::conversation& chat, const prompt_counter& counter)
        : chat_(chat), counter_(counter) {}

    result<void> apply(const clear_tool_uses& edit);
    result<void> apply(const clear_thinking& edit);
    result<void> apply(const compact& edit) {
        auto above = is_above(edit.above_tokens);
        if (!above) return above.error();
        if (*above) made_.summary = &edit;
        return {};
    }
    edited_context take() { return std::move(made_); }

  private:
    /// The positions of a call and its result.
    struct tool_use {
        engine::tool_call_part* call;
        engine::tool_result_part* found;
        const engine::content_part* place;  // of the result
    };

    /// Returns: all calls that have a result, in the order of the results.
    std::vector<tool_use> tool_uses();
    /// Returns: the exact number of tokens, counted at most once for each state of the
    /// conversation.
    result<int> tokens() {
        if (!tokens_) {
            auto counted = counter_.count_tokens(chat_);
            if (!counted) return counted.error();
            tokens_ = *counted;
            // Only the first count is of the conversation as it came.
            if (made_.original_tokens == 0) made_.original_tokens = *counted;
        }
        return *tokens_;
    }
    /// Whether the prompt has more than `limit` tokens.
    result<bool> is_above(std::int64_t limit) {
        if (most_tokens(chat_) <= limit) return false;
        auto counted = tokens();
        if (!counted) return counted.error();
        return *counted > limit;
    }
    /// Replaces the conversation by `edited` if that saves at least `at_least` tokens. Returns: the
    /// tokens that it saved; 0 where it did not replace it.
    result<int> replace(engine::conversation edited, std::int64_t at_least);

    engine::conversation& chat_;
    const prompt_counter& counter_;
    std::optional<int> tokens_;
    edited_context made_;
};

/// All results in the conversation with their calls, oldest first.
std::vector<context_editor::tool_use> context_editor::tool_uses() {
    std::map<std::string_view, engine::tool_call_part*> calls;
    std::vector<tool_use> uses;
    for (engine::message& each : chat_.messages)
        for (engine::content_part& part : each.parts) {
            if (auto* call = std::get_if<engine::tool_call_part>(&part)) calls[call->id] = call;
            auto* found = std::get_if<engine::tool_result_part>(&part);
            if (found == nullptr) continue;
            const auto call = calls.find(found->tool_call_id);
            if (call != calls.end()) uses.push_back({call->second, found, &part});
        }
    return uses;
}

/// Returns: the results that contain definitions of tools. Their text must stay.
std::unordered_set<const engine::content_part*> parts_with_definitions(
    const engine::conversation& chat) {
    std::unordered_set<const engine::content_part*> found;
    for (const engine::placed_tool& each : chat.placed_tools) {
        if (each.message >= chat.messages.size()) continue;
        const auto& parts = chat.messages[each.message].parts;
        if (each.part < parts.size()) found.insert(&parts[each.part]);
    }
    return found;
}

result<int> context_editor::replace(engine::conversation edited, std::int64_t at_least) {
    auto before = tokens();
    if (!before) return before.error();
    auto after = counter_.count_tokens(edited);
    if (!after) return after.error();
    const int saved = *before - *after;
    if (saved < at_least) return 0;
    chat_ = std::move(edited);
    tokens_ = *after;
    return saved;
}

/// Clears the oldest results of tools, except the newest edit.kept, where the conversation is large
/// enough.
result<void> context_editor::apply(const clear_tool_uses& edit) {
    const std::size_t uses = tool_uses().size();
    if (uses <= edit.kept || (edit.above_uses && uses <= *edit.above_uses)) return {};
    if (edit.above_tokens) {
        auto above = is_above(*edit.above_tokens);
        if (!above) return above.error();
        if (!*above) return {};
    }
    engine::conversation before = chat_;
    std::vector<tool_use> all = tool_uses();
    all.resize(uses - edit.kept);
    const auto kept = parts_with_definitions(chat_);
    std::size_t cleared = 0;
    for (const tool_use& each : all) {
        const std::string& name = each.call->name;
        if (edit.excluded.contains(name) || kept.contains(each.place)) continue;
        ++cleared;
        each.found->text = cleared_words;
        if (edit.clears_all_inputs || edit.clears_inputs_of.contains(name))
            each.call->arguments_json = "{}";
    }
    // The edits above were made in chat_, to which the pointers lead. Now `before` is the edited
    // conversation, and chat_ is as it was until replace() decides.
    std::swap(before, chat_);
    if (cleared == 0) return {};
    // An edit that saves nothing would only change the prompt, and so cost what memory holds of it.
    auto saved = replace(std::move(before), std::max<std::int64_t>(edit.clears_at_least, 1));
    if (!saved) return saved.error();
    if (*saved > 0)
        made_.applied.push_back(json::object{{"type", "clear_tool_uses_20250919"},
                                             {"cleared_tool_uses", cleared},
                                             {"cleared_input_tokens", *saved}});
    return {};
}

bool is_thinking(const engine::content_part& part) {
    return std::holds_alternative<engine::thinking_part>(part);
}

/// Removes the reasoning of all but the newest edit.kept turns that have some.
result<void> context_editor::apply(const clear_thinking& edit) {
    const auto thinks = [](const engine::message& each) {
        return std::ranges::any_of(each.parts, is_thinking);
    };
    const auto turns = static_cast<std::size_t>(std::ranges::count_if(chat_.messages, thinks));
    if (!edit.kept || turns <= *edit.kept) return {};
    std::size_t left = turns - *edit.kept;
    const std::size_t cleared = left;
    engine::conversation edited = chat_;
    for (engine::message& each : edited.messages) {
        if (left == 0) break;
        if (!thinks(each)) continue;
        std::erase_if(each.parts, is_thinking);
        // The message stays, since the positions of placed tools count messages.
        if (each.parts.empty()) each.parts.push_back(engine::text_part{});
        --left;
    }
    // No least number of tokens: the client gave none, and a template may drop reasoning anyway.
    auto saved = replace(std::move(edited), std::numeric_limits<std::int64_t>::min());
    if (!saved) return saved.error();
    made_.applied.push_back(json::object{{"type", "clear_thinking_20251015"},
                                         {"cleared_thinking_turns", cleared},
                                         {"cleared_input_tokens", std::max(*saved, 0)}});
    return {};
}

}  // namespace

result<edited_context> apply_context_edits(const context_edits& edits, engine::conversation& chat,
                                           const prompt_counter& counter) {
    context_editor editor(chat, counter);
    for (const auto& each : edits.list) {
        auto done = std::visit([&](const auto& edit) { return editor.apply(edit); }, each);
        if (!done) return done.error();
    }
    return editor.take();
}

}  // namespace semantic::protocol::anthropic

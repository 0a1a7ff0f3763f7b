// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/conversation_fit.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/text/output/call_text.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::result;

namespace {

// A system text in another's turn gets a heading, so that the model knows whose it is.
constexpr std::string_view system_heading = "[System]\n";
constexpr std::string_view opening_words = "[Start of the conversation]";
constexpr std::string_view answer_words = "Done.";
constexpr std::string_view no_result_words = "[No result]";
constexpr std::string_view between_messages = "\n\n";

/// Adds `text` at the end of a message's text, after `separator` unless it has no text yet.
/// `texts`, the same text by parts, is kept equal to it.
void append_text(template_message& to, std::string_view separator, std::string_view text) {
    std::string added(to.content.empty() ? std::string_view() : separator);
    added += text;
    to.content += added;
    if (to.texts.empty())
        to.texts = {to.content};
    else
        to.texts.back() += added;
}

/// Puts `text` and an empty line in front of a message's text.
void prepend_text(template_message& to, std::string_view text) {
    std::string front(text);
    if (!to.content.empty()) front += between_messages;
    to.content.insert(0, front);
    if (to.texts.empty())
        to.texts = {to.content};
    else
        to.texts.front().insert(0, front);
}

template_message message_saying(role from, std::string text) {
    return {.from = from, .content = text, .texts = {std::move(text)}};
}

/// Has the message rendered from its parts, because its text is no longer the one that the model
/// sampled.
void forget_sampled(template_message& from) {
    from.as_sampled = {};
    from.as_sampled_content = {};
}

/// Rewrites a conversation step by step until it has only what a template can render. Each step
/// notes the names of the changes that it made.
class fitter {
  public:
    /// `can`: what the template renders; it must outlive the fitter. `calls`: the form in which
    /// calls are written where they must be written as text.
    fitter(std::vector<template_message> messages, std::vector<tool_definition> tools,
           const template_shape& can, call_format calls)
        : fitted_{std::move(messages), std::move(tools)}, can_(can), calls_(calls) {}

    /// Does all steps, in an order in which none undoes another: what becomes text first, then the
    /// order and number of messages, then the calls' ids.
    result<fitted_conversation> fit() {
        if (!can_.thinking) leave_thinking_out();
        if (!can_.tools && !fitted_.tools.empty())
            if (auto told = tell_tools_as_text(); !told) return told.error();
        place_opening_system_texts();
        place_later_system_texts();
        tell_calls_as_text();
        tell_results_as_text();
        if (!can_.text_with_reasoned_call) join_texts_to_reasoning();
        join_messages();
        if (!can_.unanswered_calls) add_results();
        if (!can_.parallel_calls) split_calls();
        if (!can_.user_after_result) answer_results();
        if (!can_.any_call_id) rename_call_ids();
        if (!can_.assistant_first) open_with_user();
        return std::move(fitted_);
    }

  private:
    /// Adds a change to the list of changes, once.
    void note(std::string_view change) {
        auto& all = fitted_.changes;
        if (std::find(all.begin(), all.end(), change) == all.end()) all.emplace_back(change);
    }
    /// Empties the conversation, for a step that then adds the messages again one by one.
    std::vector<template_message> take_messages() {
        std::vector<template_message> taken;
        taken.swap(fitted_.messages);
        return taken;
    }

    void leave_thinking_out();
    result<void> tell_tools_as_text();
    void place_opening_system_texts();
    void place_later_system_texts();
    void end_pending_system_text();
    void tell_calls_as_text();
    void tell_results_as_text();
    bool is_stray(const std::vector<template_message>& before) const;
    void join_texts_to_reasoning();
    void join_messages();
    bool join_to_last(const template_message& next);
    void add_results();
    void split_calls();
    void answer_results();
    void rename_call_ids();
    void open_with_user();

    fitted_conversation fitted_;  // as far as it is rewritten
    const template_shape& can_;
    const call_format calls_;
    std::string pending_;  // system text for the next turn of the user
};

void fitter::leave_thinking_out() {
    for (template_message& one : fitted_.messages) {
        if (one.thinking.empty()) continue;
        one.thinking.clear();
        note(fit_name::thinking_left_out);
    }
}

/// Describes the tools in the system text, in the Hermes form, in place of giving them to the
/// template. Errors: bad_value from a tool whose parameters are no JSON object.
result<void> fitter::tell_tools_as_text() {
    auto text = hermes_tools_text(fitted_.tools);
    if (!text) return text.error();
    auto& messages = fitted_.messages;
    if (messages.empty() || messages.front().from != role::system)
        messages.insert(messages.begin(), message_saying(role::system, {}));
    append_text(messages.front(), between_messages, *text);
    fitted_.tools.clear();
    note(fit_name::tools_as_text);
    return {};
}

/// Joins the system texts at the head of the conversation into one where the template takes only
/// one. Where it has no place for any, their text waits in pending_ for the next turn of the user.
void fitter::place_opening_system_texts() {
    auto& messages = fitted_.messages;
    const auto end = std::find_if(messages.begin(), messages.end(),
                                  [](const auto& each) { return each.from != role::system; });
    const auto count = end - messages.begin();
    const bool has_place = can_.system_text && (can_.system_text_alone || end != messages.end());
    if (count == 0 || (has_place && (count == 1 || can_.several_system_texts))) return;
    std::string text;
    for (auto each = messages.begin(); each != end; ++each) {
        if (each != messages.begin()) text += between_messages;
        text += each->content;
    }
    if (count > 1) note(fit_name::system_texts_joined);
    messages.erase(messages.begin(), end);
    if (has_place) {
        messages.insert(messages.begin(), message_saying(role::system, std::move(text)));
        return;
    }
    note(fit_name::system_text_in_user_turn);
    pending_ = std::move(text);
}

/// Turns the system text that waits in pending_ into a user's message of its own, if there is any.
void fitter::end_pending_system_text() {
    if (pending_.empty()) return;
    fitted_.messages.push_back(message_saying(role::user, std::move(pending_)));
    pending_.clear();
}

/// Moves system texts after the first message into the next message of the user, or, when the
/// assistant speaks before that, into a user's message of their own in front of the assistant's.
/// Tool results are passed over on the way, because they must stay next to their calls.
void fitter::place_later_system_texts() {
    bool is_opening = true;
    for (template_message& one : take_messages()) {
        const bool is_later = one.from == role::system && !is_opening;
        is_opening = is_opening && one.from == role::system;
        if (is_later && !can_.later_system_text) {
            if (!pending_.empty()) pending_ += between_messages;
            pending_.append(system_heading).append(one.content);
            note(fit_name::later_system_text_in_user_turn);
            continue;
        }
        if (one.from == role::assistant) end_pending_system_text();
        if (one.from == role::user && !pending_.empty()) {
            prepend_text(one, pending_);
            pending_.clear();
        }
        fitted_.messages.push_back(std::move(one));
    }
    end_pending_system_text();
}

/// Where the template renders no calls, writes them after the text of their message.
void fitter::tell_calls_as_text() {
    if (can_.tool_calls) return;
    for (template_message& one : fitted_.messages) {
        if (one.calls.empty()) continue;
        append_text(one, "\n", text_of_calls(calls_, one.calls));
        note(fit_name::calls_as_text);
        one.calls.clear();
    }
}

/// Whether a tool result that follows `before` belongs to no call: the last message that is not
/// itself a result has none.
bool fitter::is_stray(const std::vector<template_message>& before) const {
    const auto call = std::find_if(before.rbegin(), before.rend(),
                                   [](const auto& each) { return each.from != role::tool; });
    return call == before.rend() || call->calls.empty();
}

/// Writes tool results that the template cannot render into a user's message, those in a row into
/// the same one.
void fitter::tell_results_as_text() {
    bool continues = false;  // the last message holds results that were written as text
    for (template_message& one : take_messages()) {
        const bool is_told =
            one.from == role::tool && (!can_.tool_results || !can_.tool_calls ||
                                       (!can_.stray_results && is_stray(fitted_.messages)));
        if (!is_told) {
            fitted_.messages.push_back(std::move(one));
            continues = false;
            continue;
        }
        const std::string text = "<tool_response>\n" + one.content + "\n</tool_response>";
        if (!continues) fitted_.messages.push_back({.from = role::user});
        append_text(fitted_.messages.back(), "\n", text);
        continues = true;
        note(fit_name::results_as_text);
    }
}

/// In messages with reasoning, text and calls, moves the text after the reasoning, since the
/// template cannot render all three together.
void fitter::join_texts_to_reasoning() {
    for (template_message& one : fitted_.messages) {
        if (one.calls.empty() || one.thinking.empty() || one.content.empty()) continue;
        one.thinking.append("\n").append(one.content);
        one.content.clear();
        one.texts.clear();
        note(fit_name::text_joined_to_reasoning);
    }
}

/// Adds `next` to the last message when both are from the same side (user or assistant) and the
/// template does not render two of that side in a row. Returns: false when it was not added, since
/// the template can render it as a message of its own.
bool fitter::join_to_last(const template_message& next) {
    if (fitted_.messages.empty()) return false;
    template_message& last = fitted_.messages.back();
    if (last.from == role::user && next.from == role::user && !can_.users_in_a_row) {
        append_text(last, between_messages, next.content);
        return true;
    }
    if (last.from != role::assistant || next.from != role::assistant || can_.assistants_in_a_row)
        return false;
    // Joined to a message with calls, the text would be left out by the template.
    if (!can_.text_with_call && last.calls.empty() != next.calls.empty()) return false;
    forget_sampled(last);
    if (!next.content.empty()) append_text(last, between_messages, next.content);
    if (!last.thinking.empty() && !next.thinking.empty()) last.thinking += between_messages;
    last.thinking += next.thinking;
    last.calls.insert(last.calls.end(), next.calls.begin(), next.calls.end());
    return true;
}

void fitter::join_messages() {
    for (template_message& one : take_messages()) {
        if (join_to_last(one))
            note(fit_name::messages_joined);
        else
            fitted_.messages.push_back(std::move(one));
    }
}

/// Adds the result "[No result]" for each call that another message follows without a result.
/// Calls at the end of the conversation get none: their results may still come.
void fitter::add_results() {
    std::vector<std::string> open;  // ids of calls without a result
    for (template_message& one : take_messages()) {
        if (one.from == role::tool) {
            // A result with an unknown id counts for the oldest call.
            const auto own = std::find(open.begin(), open.end(), one.call_id);
            if (!open.empty()) open.erase(own == open.end() ? open.begin() : own);
        } else {
            for (std::string& id : open) {
                fitted_.messages.push_back(
                    message_saying(role::tool, std::string(no_result_words)));
                fitted_.messages.back().call_id = std::move(id);
                note(fit_name::results_added);
            }
            open.clear();
        }
        for (const tool_call_part& call : one.calls) open.push_back(call.id);
        fitted_.messages.push_back(std::move(one));
    }
}

/// Splits a message with several calls into one message for each call, followed by its result. A
/// call's result is the one with its id, or else the first whose id belongs to no call. Results
/// left over come last. A turn as it was sampled stays whole where the template takes that.
void fitter::split_calls() {
    std::vector<template_message> all = take_messages();
    auto& out = fitted_.messages;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const bool is_whole = can_.sampled_parallel_calls && !all[i].as_sampled.empty();
        if (all[i].calls.size() < 2 || is_whole) {
            out.push_back(std::move(all[i]));
            continue;
        }
        std::size_t end = i + 1;
        while (end < all.size() && all[end].from == role::tool) ++end;
        std::vector<bool> is_told(end, false);
        template_message turn = std::move(all[i]);
        const std::vector<tool_call_part> calls = std::move(turn.calls);
        const auto is_known = [&](const template_message& found) {
            return std::any_of(calls.begin(), calls.end(),
                               [&](const auto& call) { return call.id == found.call_id; });
        };
        forget_sampled(turn);
        for (const tool_call_part& call : calls) {
            turn.calls = {call};
            out.push_back(turn);
            turn = {.from = role::assistant};
            for (std::size_t k = i + 1; k < end; ++k) {
                if (is_told[k] || (all[k].call_id != call.id && is_known(all[k]))) continue;
                is_told[k] = true;
                out.push_back(std::move(all[k]));
                break;
            }
        }
        for (std::size_t k = i + 1; k < end; ++k)
            if (!is_told[k]) out.push_back(std::move(all[k]));
        i = end - 1;
        note(fit_name::calls_split);
    }
}

/// Adds the assistant's answer "Done." between a tool result and a message of the user that follows
/// it. Joined to the result the user's text would look like the tool's output.
void fitter::answer_results() {
    for (template_message& one : take_messages()) {
        const bool follows_result =
            !fitted_.messages.empty() && fitted_.messages.back().from == role::tool;
        if (one.from == role::user && follows_result) {
            fitted_.messages.push_back(message_saying(role::assistant, std::string(answer_words)));
            note(fit_name::answer_added);
        }
        fitted_.messages.push_back(std::move(one));
    }
}

/// Gives calls and their results ids of nine letters and digits, which some templates demand.
void fitter::rename_call_ids() {
    const auto rename = [this](std::string& id) {
        std::string renamed = nine_character_id(id);
        if (renamed == id) return;
        id = std::move(renamed);
        note(fit_name::call_ids_renamed);
    };
    for (template_message& one : fitted_.messages) {
        for (tool_call_part& call : one.calls) rename(call.id);
        if (one.from == role::tool) rename(one.call_id);
    }
}

/// Adds a short message of the user in front of the conversation, after the system texts, unless
/// it begins with one.
void fitter::open_with_user() {
    auto& messages = fitted_.messages;
    const auto first = std::find_if(messages.begin(), messages.end(),
                                    [](const auto& each) { return each.from != role::system; });
    if (first != messages.end() && first->from == role::user) return;
    messages.insert(first, message_saying(role::user, std::string(opening_words)));
    note(fit_name::opening_user_turn_added);
}

bool is_letter_or_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

result<fitted_conversation> fit_conversation(std::vector<template_message> messages,
                                             std::vector<tool_definition> tools,
                                             const template_shape& can, call_format calls) {
    return fitter(std::move(messages), std::move(tools), can, calls).fit();
}

std::vector<template_shape> shapes_to_try(const template_shape& native) {
    template_shape shape = native;
    std::vector<template_shape> shapes{shape};
    // Each shape asks less of the template than the one before. The second: turns alternate, and
    // each call is alone and followed by its result. The third: calls and results are text. The
    // fourth: tools are text, too. The last: no system text and no reasoning.
    shape.several_system_texts = shape.later_system_text = shape.system_text_alone = false;
    shape.users_in_a_row = shape.assistants_in_a_row = shape.assistant_first = false;
    shape.user_after_result = shape.stray_results = shape.parallel_calls = false;
    shape.unanswered_calls = false;
    shape.any_call_id = shape.text_with_reasoned_call = shape.sampled_parallel_calls = false;
    shapes.push_back(shape);
    shape.tool_calls = shape.tool_results = false;
    shapes.push_back(shape);
    shape.tools = false;
    shapes.push_back(shape);
    shape.system_text = shape.thinking = false;
    shapes.push_back(shape);
    return shapes;
}

std::string nine_character_id(std::string_view id) {
    constexpr std::size_t characters = 9;
    if (id.size() == characters && std::all_of(id.begin(), id.end(), is_letter_or_digit))
        return std::string(id);
    constexpr std::string_view digits =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : id) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::string made;
    for (; made.size() < characters; sum /= digits.size()) made += digits[sum % digits.size()];
    return made;
}

}  // namespace semantic::engine

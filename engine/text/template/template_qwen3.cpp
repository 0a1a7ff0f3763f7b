// SPDX-License-Identifier: Apache-2.0
// Qwen 3: ChatML with Hermes tools, and reasoning between <think> and </think>. The reasoning of a
// turn is printed again while its tools are at work and dropped with the next question.

#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::result;

namespace {

constexpr std::string_view open_tag = "<think>";
constexpr std::string_view close_tag = "</think>";

std::string_view without_breaks_at_start(std::string_view text) {
    const std::size_t first = text.find_first_not_of('\n');
    return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

std::string_view without_breaks_at_end(std::string_view text) {
    return text.substr(0, text.find_last_not_of('\n') + 1);
}

/// The index of the last message that the user really wrote; messages.size() when there is none.
/// Messages of role user that are tool results between <tool_response> tags do not count.
std::size_t last_question(const std::vector<template_message>& messages) {
    for (std::size_t i = messages.size(); i-- > 0;) {
        const std::string& text = messages[i].content;
        const bool disguised =
            text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
        if (messages[i].from == role::user && !disguised) return i;
    }
    return messages.size();
}

/// The reasoning and the answer of an assistant's message.
struct spoken {
    std::string_view thinking;
    std::string_view content;
};
/// Separates the two. Clients that do not know of reasoning send it back inside the text, between
/// <think> and </think>; without these marks the whole text is the answer.
spoken parts_of(const template_message& from) {
    const std::string_view text = from.content;
    if (!from.thinking.empty()) return {from.thinking, text};
    const std::size_t first_close = text.find(close_tag);
    if (first_close == std::string_view::npos) return {{}, text};
    std::string_view thinking = without_breaks_at_end(text.substr(0, first_close));
    if (const std::size_t open = thinking.rfind(open_tag); open != std::string_view::npos) {
        thinking.remove_prefix(open + open_tag.size());
    }
    const std::size_t last_close = text.rfind(close_tag);
    return {without_breaks_at_start(thinking),
            without_breaks_at_start(text.substr(last_close + close_tag.size()))};
}

/// `may_think`: reasoning is printed where the message has some. `must_think`: the tags are printed
/// even without any, as the template does for the last message of a turn under way.
void append_assistant(marked_text& out, const template_message& from, bool may_think,
                      bool must_think) {
    const spoken said = parts_of(from);
    out.write("<|im_start|>assistant\n");
    if (must_think || (may_think && !said.thinking.empty())) {
        out.write("<think>\n")
            .fill_in(without_breaks_at_end(without_breaks_at_start(said.thinking)))
            .write("\n</think>\n\n")
            .fill_in(without_breaks_at_start(said.content));
    } else {
        out.fill_in(said.content);
    }
    bool between = !said.content.empty();
    for (const tool_call_part& call : from.calls) {
        if (between) out.write("\n");
        append_hermes_call(out, call);
        between = true;
    }
    out.write("<|im_end|>\n");
}

}  // namespace

/// Errors: bad_value from a tool whose parameters are no JSON object.
result<marked_text> render_qwen3(const template_input& input) {
    const auto& messages = input.messages;
    marked_text out;
    const bool has_system = messages.front().from == role::system;
    if (!input.tools.empty()) {
        const std::string system = has_system ? messages.front().content + "\n\n" : std::string();
        if (auto done = append_hermes_tools(out, system, input); !done) return done.error();
    } else if (has_system) {
        append_chatml_turn(out, "system", messages.front().content);
    }
    const std::size_t question = last_question(messages);
    for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        const bool under_way = i > question;  // part of the turn that answers the last question
        const bool is_last = i + 1 == messages.size();
        switch (from.from) {
            case role::system:
                append_chatml_turn(out, "system", from.content);
                break;
            case role::user:
                append_chatml_turn(out, "user", from.content);
                break;
            case role::assistant:
                if (append_as_sampled(out, from, "<|im_end|>\n")) break;
                append_assistant(out, from, under_way || input.options.keep_thinking,
                                 under_way && is_last);
                break;
            case role::tool:
                append_hermes_result(out, messages, i);
                break;
        }
    }
    out.write("<|im_start|>assistant\n");
    if (!input.family.opened_thinking.empty()) {
        out.write(input.family.opened_thinking);
        // Without the switch the model reasons; switched off, the prompt has empty reasoning.
    } else if (!input.options.thinking.value_or(true)) {
        out.write("<think>\n\n</think>\n\n");
    }
    return out;
}

}  // namespace semantic::engine

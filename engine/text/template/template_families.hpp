// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of chat template families. A family has a renderer, a format of answers, and a row
// here; see README.md.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/output_parser.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// A message as templates see it: one role and one content.
struct template_message {
    role from = role::user;
    std::string content{};                             // its text parts, joined by line breaks
    std::vector<std::string> texts{};                  // the text parts apart
    std::string thinking{};                            // assistant only
    std::vector<tool_call_part> calls{};               // assistant only
    std::string call_id{};                             // tool only: which call it is the result of
    std::string_view as_sampled{};                     // assistant only; see message::as_sampled
    std::span<const text_range> as_sampled_content{};  // of it, likewise
};
/// Converts a conversation to such messages. The system text becomes the first message. A message
/// with parts of several kinds becomes several, in order; an assistant's thinking and text become
/// one message before its calls. Errors: bad_value if a part cannot be in a message of its role.
storage::result<std::vector<template_message>> flatten(const conversation& chat);

struct template_family;

struct template_input {
    const std::vector<template_message>& messages;  // at least one
    const std::vector<tool_definition>& tools;
    const render_options& options;
    const template_family& family;
};

struct template_family {
    std::string_view name;
    int version;  // of the rules below; a change makes stored caches of the family worthless
    std::string_view bos{};             // what the renderer writes for bos_token
    std::string_view default_system{};  // what the template says when the conversation does not
    std::string_view turn_begin = "<|im_start|>assistant\n";  // of an assistant's turn
    std::vector<std::string_view> stop_tokens;
    bool prints_day = false;
    bool has_effort = false;             // prints the effort of reasoning
    bool doubled_braces = false;         // the example of a call is between {{ and }}
    std::string_view opened_thinking{};  // what the generation prompt begins the answer with
    /// The text that ends reasoning when its budget is spent; empty without reasoning.
    std::string_view thinking_end{};
    storage::result<marked_text> (*render)(const template_input& input);
    answer_format answers{};  // how its models write calls and reasoning
};
/// The byte at which the last turn begins that the template wrote: the last occurrence of
/// `turn_begin` in `text` that does not overlap its `content`. Nothing if there is none.
std::optional<std::size_t> find_turn(std::string_view text, std::span<const text_range> content,
                                     std::string_view turn_begin);
std::span<const template_family> template_families();
/// The family with this name, or the row of own_template_family; null if there is none.
const template_family* find_template_family(std::string_view name);
/// The parser for answers of a family's models, if the tools are not known; null if there is no
/// such family.
std::unique_ptr<output_parser> make_output_parser(std::string_view family, bool has_tools);
/// "chatml, gemma3, ..."
std::string template_family_names();

storage::result<marked_text> render_chatml(const template_input& input);
storage::result<marked_text> render_deepseek2(const template_input& input);
storage::result<marked_text> render_gemma3(const template_input& input);
storage::result<marked_text> render_harmony(const template_input& input);
storage::result<marked_text> render_llama3(const template_input& input);
storage::result<marked_text> render_llama30(const template_input& input);
storage::result<marked_text> render_qwen3(const template_input& input);

}  // namespace semantic::engine

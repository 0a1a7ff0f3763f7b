// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model's own chat template, rendered by the jinja interpreter: for models whose template is not
// one of a known family. Immutable; safe from any thread.

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/program.hpp"
#include "engine/text/output/answer_format.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

/// Spellings of special tokens that templates print; empty if the model has no such token.
struct special_spellings {
    std::string bos{};
    std::string eos{};
};

/// How a template expects the arguments of a call: as a dict, or as JSON text.
enum class arguments_as { dict, text };

/// The input of a rendering.
struct own_template_input {
    const std::vector<template_message>& messages;
    const std::vector<tool_definition>& tools;
    const render_options& options;
    bool answer_begins = true;  // with what begins the answer at its end
    std::string_view values{};  // more variables, as conversation::template_values
};

class own_template {
  public:
    /// Parses `source` and renders small conversations, to learn what it prints and what it leaves
    /// out. Errors: incompatible if it is no template, or does not print the user's text.
    static storage::result<own_template> make(std::string_view source,
                                              const special_spellings& spellings);

    /// Renders a conversation, with marks of what is content. Turns are written as the model
    /// sampled them if the template prints them as a whole, otherwise from their parts. Errors:
    /// bad_value: the template raises an error (its text), fails (with the place), or leaves out a
    /// part of the request. `hit_limit`: set if the template exceeds the limits of a run.
    storage::result<jinja::rendering> render_marked(const own_template_input& input,
                                                    bool& hit_limit) const;
    /// A copy of this template with other spellings of special tokens.
    own_template copy_spelled(const special_spellings& spellings) const;

    /// The text at the head of every prompt.
    const std::string& bos() const noexcept { return bos_; }
    /// The text that begins an assistant's turn; empty if the generation prompt does not begin with
    /// it.
    const std::string& turn_begin() const noexcept { return turn_begin_; }
    /// Spellings of tokens that may end a turn: the model's, and the text after an answer.
    const std::vector<std::string>& stop_tokens() const noexcept { return stop_tokens_; }
    /// How the model writes calls and reasoning. Calls: the format that reads back what the
    /// template writes; if it writes none, by marks in the source, as for reasoning. Whether the
    /// prompt opens reasoning: by the end of the generation prompt.
    const answer_format& answers() const noexcept { return answers_; }
    bool prints_day() const { return program_.reads("strftime_now"); }
    /// "jinja/" and a version and a hash of the source.
    const std::string& identity() const noexcept { return identity_; }

  private:
    explicit own_template(jinja::program program) : program_(std::move(program)) {}

    jinja::outcome<jinja::rendering> run(const own_template_input& input,
                                         const jinja::value& messages, const jinja::value& tools,
                                         std::uint64_t extra_steps) const;
    storage::result<jinja::rendering> render_parts(const own_template_input& input,
                                                   bool& hit_limit) const;
    storage::result<jinja::rendering> render_as_sampled(const own_template_input& input,
                                                        bool& hit_limit) const;
    jinja::outcome<jinja::rendering> outcome_of(const conversation& chat, bool with_prompt) const;
    std::string tried(const conversation& chat, bool with_prompt) const;
    void find_changes_of_lists();
    storage::result<void> probe();
    void find_answers(std::string_view source);
    bool opens_thinking(std::optional<bool> thinking) const;
    void find_turn();
    storage::result<void> check(const std::vector<template_message>& messages,
                                const std::vector<tool_definition>& tools) const;

    jinja::program program_;
    special_spellings spellings_;  // as given, even if the template prints none
    std::string bos_;              // spellings_.bos if prompts begin with it; else empty
    std::string turn_begin_;
    std::vector<std::string> stop_tokens_;
    std::string identity_;
    answer_format answers_;
    // Whether such input is printed, or at least refused; false: the template leaves it out
    // silently.
    bool has_system_ = false;
    bool has_later_system_ = false;
    bool has_users_in_a_row_ = false;
    bool has_tools_ = false;
    bool has_calls_ = false;
    bool has_results_ = false;
    arguments_as form_ = arguments_as::dict;  // of calls, as the template takes them
    bool wants_tool_list_ = false;            // an empty one where there are no tools
    bool changes_lists_ = false;              // calls append() or pop()
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Renders a conversation to the prompt text of a model, byte for byte as its published chat
// template does. Immutable; safe from any thread.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/values/marked_text.hpp"
#include "engine/text/output/answer_format.hpp"
#include "engine/text/template/probe/template_shape.hpp"
#include "engine/types/conversation.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {
struct gguf_view;
}

namespace semantic::engine {

/// The family name of models that are rendered by their own template (jinja).
constexpr std::string_view own_template_family = "jinja";

class own_template;
struct template_message;
struct template_source;
using jinja::marked_text;

/// What a template prints in addition to the conversation. A change of it changes the prompt, and
/// so voids an agent's memory from there on: the caller keeps it fixed for an agent.
struct render_options {
    /// The date that a template prints as today, as yyyy-mm-dd. Empty: 2024-07-26, the default of
    /// Llama 3.1's template. Never the clock: at midnight every prompt would change.
    std::string date;
    /// Whether the model should reason (qwen3's enable_thinking; other families have no switch).
    /// Own templates get it as enable_thinking and as thinking. Absent: the template's default.
    std::optional<bool> thinking{};
    /// The effort of reasoning that harmony prints; other families have none.
    std::string reasoning_effort = "medium";
    /// Keeps the reasoning of earlier turns, which the published templates of qwen3 and harmony
    /// drop, so that a new turn continues the old prompt and does not diverge at the last question.
    bool keep_thinking = false;
};

class chat_template {
  public:
    /// Blocks. With a `family`: that one, without reading a file; "jinja" forces the interpreter.
    /// For a GGUF file: as from_gguf(). Otherwise reads the template in the model's folder
    /// (read_template_source()), and uses the family whose renderer prints the same, or else the
    /// interpreter. If there is no template that renders, config.json's model_type decides, for
    /// types whose models all have one format. A separate template for requests with tools is read
    /// in the same way. Errors: bad_value, as make(); not_found and corrupt if there is nothing to
    /// read; incompatible, with the known families, if there is no template that renders.
    static storage::result<chat_template> load(const std::string& model,
                                               std::string_view family = {});
    /// As load(), from a GGUF's metadata: by tokenizer.chat_template, otherwise by
    /// general.architecture.
    /// Errors: bad_value, as make(); corrupt, with the key; incompatible, as load().
    static storage::result<chat_template> from_gguf(const storage::gguf_view& metadata,
                                                    std::string_view family = {});
    /// A template by the name of its family (the table in README.md). Errors: bad_value, with the
    /// known names; also for "jinja", which needs a model's template.
    static storage::result<chat_template> make(std::string_view family);
    /// The names of all families: "llama3, harmony, ...".
    static std::string families();

    /// Renders a prompt that ends as chat.end says. A conversation with a shape that the template
    /// cannot render is changed to the nearest shape that it can (fit_conversation()). Errors:
    /// bad_value if there is none, or for options that the family does not have.
    storage::result<std::string> render(const conversation& chat,
                                        const render_options& options = {}) const;
    /// Renders a prompt as render() does, with marks of which parts are content: the texts of the
    /// request, in which no special token is recognised. A turn as it was sampled is content except
    /// for its control tokens. `changes`: set to the names (fit_name) of shapes that were changed;
    /// may be null.
    storage::result<marked_text> render_marked(const conversation& chat,
                                               const render_options& options = {},
                                               std::vector<std::string>* changes = nullptr) const;
    /// The shapes of conversations that the template renders without change.
    const template_shape& shape() const noexcept { return shapes_.renders; }
    /// From now on nothing is marked as content, so special tokens that a request spells are
    /// recognised. Not safe while other calls run.
    void trust_content() noexcept {
        trusts_content_ = true;
        if (for_tools_) for_tools_->trust_content();
    }
    const std::string& family() const noexcept { return family_; }
    /// Why the family was chosen by the model's type: "the model has no chat template"; empty if it
    /// was chosen by a template or by name.
    const std::string& assumed() const noexcept { return assumed_; }
    /// Whether the rendered text contains the day, so that another day makes another prompt.
    bool prints_day() const;
    /// The text at the head of every prompt; empty for families without.
    std::string bos() const;
    /// The text that ends reasoning; empty if the family has no reasoning.
    std::string thinking_end() const;
    /// The text that begins an assistant's turn, and the generation prompt.
    std::string_view turn_begin() const noexcept;
    /// How the models write calls and reasoning. If the template cannot render tools, they are
    /// rendered as text, and the model is asked to write calls as Hermes does.
    answer_format answers() const;
    /// Spellings of the tokens that end an assistant turn.
    const std::vector<std::string>& stop_tokens() const noexcept { return stop_tokens_; }
    /// A text for the fingerprint: family and version of the rendering rules.
    std::string identity() const;

  private:
    struct attempt;

    chat_template() = default;
    static storage::result<chat_template> make_own(own_template own);
    static storage::result<chat_template> from_text(const template_source& source, bool is_own);
    static storage::result<chat_template> from_source(const template_source& source, bool is_own);
    static storage::result<chat_template> assume(std::string_view family, bool has_none);
    void find_shapes();
    storage::result<marked_text> render_messages(const conversation& chat,
                                                 const render_options& options,
                                                 std::vector<std::string>* changes) const;
    storage::result<marked_text> render_open_end(const conversation& chat,
                                                 const render_options& options,
                                                 std::vector<std::string>* changes) const;
    storage::result<void> check_left_out(const std::vector<template_message>& messages,
                                         const std::vector<tool_definition>& tools) const;
    storage::result<void> check_options(const conversation& chat,
                                        const render_options& options) const;
    storage::result<marked_text> render_as_it_stands(const attempt& one, bool& hit_limit) const;

    std::string family_;   // a family's name, or own_template_family
    std::string assumed_;  // see assumed()
    std::vector<std::string> stop_tokens_;
    bool trusts_content_ = false;               // see trust_content()
    template_shapes shapes_;                    // as find_shapes() found them
    std::shared_ptr<const own_template> own_;   // null: the family's renderer is used
    std::shared_ptr<chat_template> for_tools_;  // null: this one is for requests with tools too
};

}  // namespace semantic::engine

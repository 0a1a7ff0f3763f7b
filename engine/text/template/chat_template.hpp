// SPDX-License-Identifier: Apache-2.0
#pragma once
// A conversation as the prompt text of a model family, byte for byte what the published template
// renders.
// Immutable; safe from any thread.

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

/// The family of models that are rendered through their own template.
constexpr std::string_view own_template_family = "jinja";

class own_template;
struct template_message;
struct template_source;
using jinja::marked_text;

/// What a template prints apart from the conversation. All of it is before, or inside, text that is
/// cached: the caller holds it fixed for an agent, or each change costs the agent its memory from
/// there on.
struct render_options {
    /// The day a template calls today, as yyyy-mm-dd. Empty: 2024-07-26, what Llama 3.1's template
    /// says when it gets no date. Never the clock: a prompt that changes at midnight would lose
    /// every cache.
    std::string date;
    /// Whether the model is to reason: qwen3's enable_thinking; other families have no switch. Own
    /// templates get it as enable_thinking and as thinking. Absent: as the template prefers.
    std::optional<bool> thinking{};
    /// What harmony prints as the effort of reasoning; other families have none.
    std::string reasoning_effort = "medium";
    /// Keeps the reasoning of earlier turns where the published template drops it (qwen3, harmony),
    /// so that a new turn continues the old prompt instead of diverging from it after the last
    /// question.
    bool keep_thinking = false;
};

class chat_template {
  public:
    /// Blocks. With a `family`: that one, and no file is read. Of a GGUF file: as from_gguf().
    /// Otherwise by the template in the model's folder (read_template_source()): a family whose
    /// renderer prints what the template prints, else the model's own template under the
    /// interpreter. Where there is none, or none that renders, config.json's model_type decides if
    /// all models of that type speak one format. A template for requests with tools is read
    /// likewise and used for those. `family` "jinja" has the interpreter for every template.
    /// Errors: bad_value, as make(); not_found and corrupt, when there is nothing to read;
    /// incompatible, naming the families there are, when there is no template that renders.
    static storage::result<chat_template> load(const std::string& model,
                                               std::string_view family = {});
    /// The same from a GGUF's metadata: by tokenizer.chat_template, else by general.architecture.
    /// Errors: bad_value, as make(); corrupt, naming the key; incompatible, as load().
    static storage::result<chat_template> from_gguf(const storage::gguf_view& metadata,
                                                    std::string_view family = {});
    /// `family`: a name of the table in README.md. Errors: bad_value, naming those there are; for
    /// "jinja" too, which needs a template.
    static storage::result<chat_template> make(std::string_view family);
    /// Their names: "llama3, harmony, ...".
    static std::string families();

    /// Renders up to where the conversation says that the prompt ends. A conversation that the
    /// template does not render as it is gets the nearest shape that it does (fit_conversation()).
    /// Errors: bad_value, when there is none, or for options that the family does not have.
    storage::result<std::string> render(const conversation& chat,
                                        const render_options& options = {}) const;
    /// The same, and what of it is content: all that the request brought, in which nothing may
    /// become a special token. Of a turn as it was sampled, all but its control tokens is content.
    /// `changes`: set to what was rendered in another shape, by fit_name; may be null.
    storage::result<marked_text> render_marked(const conversation& chat,
                                               const render_options& options = {},
                                               std::vector<std::string>* changes = nullptr) const;
    /// The conversations that the template renders without change.
    const template_shape& shape() const noexcept { return shapes_.renders; }
    /// From here on nothing is content: what a request spells as a special token is one. Not safe
    /// while other calls run.
    void trust_content() noexcept {
        trusts_content_ = true;
        if (for_tools_) for_tools_->trust_content();
    }
    const std::string& family() const noexcept { return family_; }
    /// Why the family is that of the model's type, not of a template that it has: "the model has no
    /// chat template"; empty where a template or a name decided it.
    const std::string& assumed() const noexcept { return assumed_; }
    /// Whether the rendered text contains the day, so that another day makes another prompt.
    bool prints_day() const;
    /// The text at the head of every prompt; empty for families without.
    std::string bos() const;
    /// What a model that reasons must have written for its answer to begin; empty when the family
    /// has no reasoning.
    std::string thinking_end() const;
    /// What begins an assistant's turn; the generation prompt begins with it too.
    std::string_view turn_begin() const noexcept;
    /// How its models write calls and reasoning. Where the template has no tools, they are rendered
    /// as text and the model is asked for calls in the Hermes form.
    answer_format answers() const;
    /// Spellings of the tokens that end an assistant turn.
    const std::vector<std::string>& stop_tokens() const noexcept { return stop_tokens_; }
    /// Hash input for the fingerprint: family and version of the rendering rules.
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

    std::string family_;
    std::string assumed_;
    std::vector<std::string> stop_tokens_;
    bool trusts_content_ = false;
    template_shapes shapes_;
    std::shared_ptr<const own_template> own_;   // null: the family's renderer is used
    std::shared_ptr<chat_template> for_tools_;  // null: this one is for requests with tools too
};

}  // namespace semantic::engine

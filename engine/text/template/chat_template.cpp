// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/chat_template.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>

#include "engine/text/template/conversation_fit.hpp"
#include "engine/text/template/family_choice.hpp"
#include "engine/text/template/own_template.hpp"
#include "engine/text/template/source/template_source.hpp"
#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

/// A model type whose checkpoints all have the same chat format. Such a type decides the family
/// where the model's template is missing, or cannot be rendered but contains `turn`, a mark of the
/// format. Other types are not here, since their checkpoints differ in their formats.
struct sure_model {
    std::string_view type;  // config.json's model_type, or a GGUF's general.architecture
    std::string_view family;
    std::string_view turn;
};
constexpr std::array sure_models{
    sure_model{"gpt_oss", "harmony", "<|channel|>"},
    sure_model{"gpt-oss", "harmony", "<|channel|>"},
    sure_model{"gemma3", "gemma3", "<start_of_turn>"},
    sure_model{"gemma3_text", "gemma3", "<start_of_turn>"},
};

bool has(std::string_view text, std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
}

/// Whether the conversation has tools, calls or tool results.
bool mentions_tools(const conversation& chat) {
    const auto is_text = [](const content_part& part) {
        return std::holds_alternative<text_part>(part) ||
               std::holds_alternative<thinking_part>(part);
    };
    return !chat.tools.empty() || !std::ranges::all_of(chat.messages, [&](const message& one) {
        return std::ranges::all_of(one.parts, is_text);
    });
}

/// The family of a model type of sure_models; null for other types, and when the template lacks the
/// format's mark.
const template_family* family_of_type(const template_source& source) {
    for (const sure_model& model : sure_models) {
        if (model.type == source.type && (source.text.empty() || has(source.text, model.turn))) {
            return find_template_family(model.family);
        }
    }
    return nullptr;
}

// Is appended to a message that the model is to continue, so that the rendering shows where the
// message ends. Its last occurrence counts, since no text of the client follows it.
constexpr std::string_view open_end_mark = "the-answer-goes-on-5d0b93e7c2";

/// Appends open_end_mark to the last message. Returns: false when that is not from `from`, or ends
/// with something else than text or reasoning, so that it cannot be continued.
bool mark_open_end(conversation& chat, role from) {
    if (chat.messages.empty() || chat.messages.back().from != from) return false;
    message& last = chat.messages.back();
    last.as_sampled.clear();
    last.as_sampled_content.clear();
    if (last.parts.empty()) last.parts.push_back(text_part{});
    if (auto* text = std::get_if<text_part>(&last.parts.back()))
        text->text += open_end_mark;
    else if (auto* thought = std::get_if<thinking_part>(&last.parts.back()))
        thought->text += open_end_mark;
    else
        return false;
    return true;
}

/// Checks `values`, the template variables of a request (chat_template_kwargs) as a JSON object or
/// an empty text: a family takes those that its published template reads. Errors: bad_value, naming
/// the variable, for others, or for a value that the variable cannot have.
result<void> check_template_values(const std::string& values, const template_family& family) {
    if (values.empty()) return {};
    const boost::json::value json = parse_template_values(values);
    if (!json.is_object())
        return failure{errc::bad_value, "the template's values are no JSON object"};
    for (const auto& [key, value] : json.get_object()) {
        const bool is_switch = (key == "enable_thinking" || key == "thinking") && value.is_bool();
        const bool is_effort = key == "reasoning_effort" && family.has_effort &&
                               (value == "low" || value == "medium" || value == "high");
        if (is_switch || is_effort) continue;
        return failure{errc::bad_value, "chat_template_kwargs." + std::string(key) +
                                            ": chat template family " + std::string(family.name) +
                                            " has no such variable, or not this value of it"};
    }
    return {};
}

/// The error that no chat template was found for a model. `why_not`: why the model's own template,
/// if it has one, cannot be rendered.
failure no_family(const template_source& source, const std::string& why_not) {
    const std::string message =
        !source.is_file          ? ": there is no such file"
        : !source.others.empty() ? ": has no default template (there are: " + source.others + ")"
        : source.text.empty()    ? ": has no chat_template"
                                 : ": the chat template cannot be rendered, " + why_not;
    return {
        source.is_file ? errc::incompatible : errc::not_found,
        source.path + message + ", and " + source.type_key + " '" + source.type +
            "' does not decide it; --chat-template can name one of: " + chat_template::families()};
}

}  // namespace

result<chat_template> chat_template::make(std::string_view family) {
    const template_family* found = find_template_family(family);
    if (found == nullptr || family == own_template_family) {
        return failure{errc::bad_value, "there is no chat template family '" + std::string(family) +
                                            "' (there are: " + chat_template::families() + ")"};
    }
    chat_template made;
    made.family_ = found->name;
    made.stop_tokens_.assign(found->stop_tokens.begin(), found->stop_tokens.end());
    made.find_shapes();
    return made;
}

std::string chat_template::families() {
    return template_family_names() + ", " + std::string(own_template_family);
}

result<chat_template> chat_template::make_own(own_template own) {
    chat_template made;
    made.family_ = own_template_family;
    made.stop_tokens_ = own.stop_tokens();
    made.own_ = std::make_shared<const own_template>(std::move(own));
    made.find_shapes();
    return made;
}

/// Makes a chat template of the model's own one. When a built-in family renders the same text,
/// that family is taken: its renderer is faster than the Jinja interpreter, and its parser knows
/// more about how the models write. `is_own`: the interpreter was asked for and is always taken.
/// Errors: incompatible when there is no template, or it cannot be used.
result<chat_template> chat_template::from_text(const template_source& source, bool is_own) {
    // Without a message: no_family() says which file lacks a template.
    if (source.text.empty()) return failure{errc::incompatible, {}};
    auto own = own_template::make(source.text, {source.bos, source.eos});
    if (!own) return own.error();
    const template_family* same = is_own ? nullptr : find_family_rendering_as(*own, source);
    return same != nullptr ? make(same->name) : make_own(*std::move(own));
}

/// Makes a chat template of what a model's files have. Without one that can be rendered, the
/// model's type may decide the family; a separate template for tools is made, too. Errors: see
/// load().
result<chat_template> chat_template::from_source(const template_source& source, bool is_own) {
    auto made = from_text(source, is_own);
    if (!made) {
        const template_family* sure = is_own ? nullptr : family_of_type(source);
        if (sure == nullptr) return no_family(source, made.error().what);
        return assume(sure->name, source.text.empty());
    }
    template_source other = source;
    other.text = source.tools_text;
    auto for_tools = from_text(other, is_own);
    // Without a template for tools, or with one that cannot be used, the default serves all
    // requests.
    if (!for_tools) return made;
    for (const std::string& stop : for_tools->stop_tokens_)
        if (std::find(made->stop_tokens_.begin(), made->stop_tokens_.end(), stop) ==
            made->stop_tokens_.end())
            made->stop_tokens_.push_back(stop);
    made->for_tools_ = std::make_shared<chat_template>(*std::move(for_tools));
    return made;
}

result<chat_template> chat_template::load(const std::string& model, std::string_view family) {
    const bool is_own = family == own_template_family;
    if (!family.empty() && !is_own) return make(family);
    if (storage::is_gguf_path(model)) {
        const auto parts = storage::open_gguf(model);
        if (!parts) return parts.error();
        auto made = from_gguf(parts->front().view(), family);
        if (!made) return failure{made.error().code, model + ": " + made.error().what};
        return made;
    }
    const auto source = read_template_source(model);
    if (!source) return source.error();
    return from_source(*source, is_own);
}

result<chat_template> chat_template::from_gguf(const storage::gguf_view& metadata,
                                               std::string_view family) {
    const bool is_own = family == own_template_family;
    if (!family.empty() && !is_own) return make(family);
    const auto source = read_template_source(metadata);
    if (!source) return source.error();
    return from_source(*source, is_own);
}

result<chat_template> chat_template::assume(std::string_view family, bool has_none) {
    auto made = make(family);
    if (made) made->assumed_ = has_none ? "the model has no chat template" : "its own is not known";
    return made;
}

/// One call of the renderer, whose input is given to it unchanged.
struct chat_template::attempt {
    const std::vector<template_message>& messages;
    const std::vector<tool_definition>& tools;
    const render_options& options;
    prompt_end end;
    std::string_view values;
};

/// Renders messages that are not refitted. `hit_limit`: set when the interpreter's limits were
/// exceeded.
result<marked_text> chat_template::render_as_it_stands(const attempt& one, bool& hit_limit) const {
    hit_limit = false;
    const bool answer_begins = one.end != prompt_end::messages;
    if (own_ != nullptr) {
        auto made = own_->render_marked(
            {one.messages, one.tools, one.options, answer_begins, one.values}, hit_limit);
        if (!made) return made.error();
        return marked_text(std::move(made->text), std::move(made->content));
    }
    const template_family& family = *find_template_family(family_);
    auto made = family.render({one.messages, one.tools, one.options, family});
    if (!made || answer_begins) return made;
    // The families' renderers always write the begin of an answer, as the last thing. Here none is
    // wanted, so it is cut off again.
    const auto begin = find_turn(made->bytes(), made->content(), family.turn_begin);
    return made->part(0, begin.value_or(made->size()));
}

/// Renders probe conversations to find which shapes of messages the template can express.
void chat_template::find_shapes() {
    shapes_ = find_template_shapes([this](const conversation& chat) -> std::optional<std::string> {
        const auto messages = flatten(chat);
        if (!messages) return std::nullopt;
        bool hit_limit = false;
        auto made = render_as_it_stands({*messages, chat.tools, {}, chat.end, {}}, hit_limit);
        if (!made) return std::nullopt;
        return made->bytes();
    });
    // A model's own template is given the calls of a turn even where the turn's text comes as it
    // was sampled, so several calls must be split in such turns, too, where it takes only one.
    if (own_ != nullptr) shapes_.renders.sampled_parallel_calls = shapes_.renders.parallel_calls;
    // Where tools are described as text, the model is asked to write calls in the Hermes form. If
    // the template would render earlier calls in another form, they are written as text, too.
    const bool has_other_form = own_ != nullptr && own_->answers().calls != call_format::hermes;
    if (!shapes_.renders.tools && has_other_form) shapes_.renders.tool_calls = false;
}

/// Errors: bad_value when the template would leave out a part of the conversation without an
/// error, as was found by probing it.
result<void> chat_template::check_left_out(const std::vector<template_message>& messages,
                                           const std::vector<tool_definition>& tools) const {
    // The template leaves nothing out.
    if (shapes_.leaves_out == template_shape()) return {};
    // What is not left out is given as what can be rendered: so a change means an omission.
    const auto fitted = fit_conversation(messages, tools, shapes_.leaves_out);
    if (!fitted) return fitted.error();
    if (fitted->changes.empty()) return {};
    return failure{errc::bad_value, "the model's chat template leaves out a part of the messages"};
}

/// Errors: bad_value for a day that is none (where the template may print it) and for template
/// variables that the family does not have.
result<void> chat_template::check_options(const conversation& chat,
                                          const render_options& options) const {
    if (prints_day() || own_ != nullptr)
        if (auto day = day_of(options); !day) return day.error();
    if (own_ != nullptr) return {};
    return check_template_values(chat.template_values, *find_template_family(family_));
}

/// Renders the conversation as the client sent it or, when the template fails at that, refitted to
/// ever plainer shapes until one is rendered. `changes` (may be null) gets the names of the changes
/// that were made. Errors: that of the first attempt, when every shape fails; a template that
/// exceeds the interpreter's limits is not tried again.
result<marked_text> chat_template::render_messages(const conversation& chat,
                                                   const render_options& options,
                                                   std::vector<std::string>* changes) const {
    auto messages = flatten(chat);
    if (!messages) return messages.error();
    if (auto known = check_options(chat, options); !known) return known.error();
    bool hit_limit = false;
    const auto tried = [&](const std::vector<template_message>& said,
                           const std::vector<tool_definition>& tools) {
        return render_as_it_stands({said, tools, options, chat.end, chat.template_values},
                                   hit_limit);
    };
    auto left_out = check_left_out(*messages, chat.tools);
    auto as_sent = left_out ? tried(*messages, chat.tools) : result<marked_text>(left_out.error());
    if (as_sent || hit_limit) return as_sent;
    for (const template_shape& shape : shapes_to_try(shapes_.renders)) {
        // Where tools are described as text, the model is asked to write calls in the Hermes form.
        const call_format calls = shape.tools ? answers().calls : call_format::hermes;
        auto fitted = fit_conversation(*messages, chat.tools, shape, calls);
        if (!fitted) return fitted.error();
        // The same as was sent, which has failed already.
        if (fitted->changes.empty()) continue;
        auto made = tried(fitted->messages, fitted->tools);
        if (made && changes != nullptr) *changes = std::move(fitted->changes);
        if (made || hit_limit) return made;
    }
    return as_sent;
}

result<marked_text> chat_template::render_marked(const conversation& chat,
                                                 const render_options& options,
                                                 std::vector<std::string>* changes) const {
    if (for_tools_ && mentions_tools(chat))
        return for_tools_->render_marked(chat, options, changes);
    if (changes != nullptr) changes->clear();
    const bool is_open =
        chat.end == prompt_end::inside_answer || chat.end == prompt_end::inside_message;
    auto made =
        is_open ? render_open_end(chat, options, changes) : render_messages(chat, options, changes);
    // Nothing is marked as content.
    if (made && trusts_content_) return marked_text(made->bytes(), false);
    return made;
}

/// Renders a conversation whose last message the model is to continue: the prompt is cut off where
/// that message's text ends. Errors: bad_value when the last message is not one to continue, or the
/// template does not print its end.
result<marked_text> chat_template::render_open_end(const conversation& chat,
                                                   const render_options& options,
                                                   std::vector<std::string>* changes) const {
    const bool is_answer = chat.end == prompt_end::inside_answer;
    conversation marked = chat;
    if (!mark_open_end(marked, is_answer ? role::assistant : role::user)) {
        return failure{errc::bad_value, "only a last message of the " +
                                            std::string(is_answer ? "assistant" : "user") +
                                            " that ends with text can be continued"};
    }
    auto made = render_messages(marked, options, changes);
    if (!made) return made.error();
    const std::size_t end = made->bytes().rfind(open_end_mark);
    if (end != std::string::npos) return made->part(0, end);
    return failure{errc::bad_value,
                   "the chat template leaves out what the last message ends with, so it cannot be "
                   "continued"};
}

result<std::string> chat_template::render(const conversation& chat,
                                          const render_options& options) const {
    const auto made = render_marked(chat, options);
    if (!made) return made.error();
    return made->bytes();
}

std::string chat_template::bos() const {
    return own_ != nullptr ? own_->bos() : std::string(find_template_family(family_)->bos);
}

bool chat_template::prints_day() const {
    if (for_tools_ && for_tools_->prints_day()) return true;
    return own_ != nullptr ? own_->prints_day() : find_template_family(family_)->prints_day;
}

std::string chat_template::thinking_end() const {
    if (own_ != nullptr) return thinking_end_of(own_->answers().thinking);
    return std::string(find_template_family(family_)->thinking_end);
}

answer_format chat_template::answers() const {
    answer_format found =
        own_ != nullptr ? own_->answers() : find_template_family(family_)->answers;
    // Requests with calls go to the template for tools, so its form of calls counts.
    if (for_tools_) found.calls = for_tools_->answers().calls;
    const bool tells_tools = for_tools_ ? for_tools_->shape().tools : shape().tools;
    if (!tells_tools) found.calls = call_format::hermes;
    return found;
}

std::string_view chat_template::turn_begin() const noexcept {
    return own_ != nullptr ? std::string_view(own_->turn_begin())
                           : find_template_family(family_)->turn_begin;
}

std::string chat_template::identity() const {
    const std::string own =
        own_ != nullptr ? own_->identity()
                        : family_ + "/" + std::to_string(find_template_family(family_)->version);
    return for_tools_ ? own + "\ntools: " + for_tools_->identity() : own;
}

}  // namespace semantic::engine

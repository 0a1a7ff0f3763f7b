#include "engine/text/template/chat_template.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>

#include "engine/text/gguf/gguf_fields.hpp"
#include "engine/text/template/own_template.hpp"
#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"
#include "engine/text/tokenizer/json_access.hpp"
#include "storage/files/file.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr std::uint64_t file_bytes_max = std::uint64_t{64} << 20;

/// Models whose every checkpoint speaks one format, so that the type decides when the template does
/// not: it is missing, or somebody's own variation that still writes this turn. All other types
/// come with several formats.
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

const template_family* family_of_text(std::string_view text, std::string_view bos) {
    for (const template_family& family : template_families()) {
        const auto in_text = [&](std::string_view mark) { return has(text, mark); };
        const bool same_bos = family.bos.empty() || bos.empty() || family.bos == bos;
        if (same_bos && std::all_of(family.marks.begin(), family.marks.end(), in_text) &&
            std::none_of(family.foreign.begin(), family.foreign.end(), in_text)) {
            return &family;
        }
    }
    return nullptr;
}

/// A string, or a list of named templates of which "default" is taken.
std::string template_text(const boost::json::value& config) {
    const std::string text = text_of(config, "chat_template");
    const boost::json::array* named = array_of(config, "chat_template");
    if (named == nullptr) return text;
    for (const auto& item : *named) {
        if (text_of(item, "name") == "default") return text_of(item, "template");
    }
    return {};
}

/// A token's spelling, which files write as a string or as an object.
std::string token_text(const boost::json::value& config, std::string_view key) {
    const boost::json::value& token = member(config, key);
    return token.is_object() ? text_of(token, "content") : text_of(config, key);
}

/// A null value when there is no such file.
result<boost::json::value> read_json_file(const std::string& path) {
    auto text = storage::read_whole(storage::posix_file_system(), path, file_bytes_max);
    if (!text && text.error().code == errc::not_found) return boost::json::value();
    if (!text) return text.error();
    boost::system::error_code error;
    boost::json::value json = boost::json::parse(*text, error);
    if (error) return failure{errc::corrupt, path + ": not JSON: " + error.message()};
    return json;
}

struct template_source {
    std::string path;      // of the file or key that has the template, or should have had it
    std::string text;      // empty: there is none
    std::string bos;       // empty: not said
    std::string eos;       // the same
    std::string type_key;  // what the type of model is called: "model_type"
    std::string type;
    std::string others;   // of templates by other names, where there is no default: "rag, tool_use"
    bool is_file = true;  // there is a file that could have it
};
result<template_source> read_source(const std::string& directory) {
    template_source source;
    source.path = directory + "/tokenizer_config.json";
    auto config = read_json_file(source.path);
    if (!config) return config.error();
    source.text = template_text(*config);
    source.bos = token_text(*config, "bos_token");
    source.eos = token_text(*config, "eos_token");
    // A file of its own goes before the member, as the reference has it; so does that of a model's
    // processor.
    const std::string processor = directory + "/chat_template.json";
    auto wrapped = read_json_file(processor);
    if (!wrapped) return wrapped.error();
    if (std::string text = template_text(*wrapped); !text.empty()) {
        source.path = processor;
        source.text = std::move(text);
    }
    const std::string beside = directory + "/chat_template.jinja";
    auto own = storage::read_whole(storage::posix_file_system(), beside, file_bytes_max);
    if (!own && own.error().code != errc::not_found) return own.error();
    if (own) {
        source.path = beside;
        source.text = std::move(*own);
    } else if (config->is_null() && wrapped->is_null()) {
        source.is_file = false;
    }
    return source;
}

result<void> read_type(const std::string& directory, template_source& source) {
    auto config = read_json_file(directory + "/config.json");
    if (!config) return config.error();
    source.type_key = "model_type";
    source.type = text_of(*config, "model_type");
    return {};
}

/// As llama.cpp's converter writes templates: the default one by itself, others with their names
/// behind the key.
result<template_source> read_source(const storage::gguf_view& metadata) {
    template_source source;
    source.path = "tokenizer.chat_template";
    source.type_key = "general.architecture";
    const auto text = gguf_fields::text(metadata, source.path);
    if (!text) return text.error();
    source.text = *text;
    const auto names = gguf_fields::strings(metadata, "tokenizer.chat_templates");
    if (!names) return names.error();
    if (*names != nullptr && source.text.empty()) {
        for (const std::string_view name : (*names)->strings)
            source.others += (source.others.empty() ? "" : ", ") + std::string(name);
    }
    const auto type = gguf_fields::text(metadata, source.type_key);
    if (!type) return type.error();
    source.type = *type;
    const auto tokens = gguf_fields::strings(metadata, "tokenizer.ggml.tokens");
    if (!tokens) return tokens.error();
    for (const auto& [key, spelling] : {std::pair{"tokenizer.ggml.bos_token_id", &source.bos},
                                        {"tokenizer.ggml.eos_token_id", &source.eos}}) {
        const auto id = gguf_fields::number(metadata, key);
        if (!id) return id.error();
        if (id->has_value() && *tokens != nullptr && **id < (*tokens)->count)
            *spelling = (*tokens)->strings[static_cast<std::size_t>(**id)];
    }
    return source;
}

/// Null when the type does not decide.
const template_family* family_of_type(const template_source& source) {
    for (const sure_model& model : sure_models) {
        if (model.type == source.type && (source.text.empty() || has(source.text, model.turn))) {
            return find_template_family(model.family);
        }
    }
    return nullptr;
}

// Stands where the last message is to go on. The last place where it is found is the right one:
// nothing of the client's stands behind.
constexpr std::string_view open_end_mark = "the-answer-goes-on-5d0b93e7c2";

/// Returns: false when there is no message of `from` to go on with.
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

/// Families take the variables of their published templates that a request may set, and refuse
/// others. Requires: `values` is a JSON object, or empty.
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

/// `why_not`: what speaks against the model's own template, where it has one.
failure no_family(const template_source& source, const std::string& why_not) {
    const std::string what =
        !source.is_file          ? ": there is no such file"
        : !source.others.empty() ? ": has no default template (there are: " + source.others + ")"
        : source.text.empty()    ? ": has no chat_template"
                                 : ": the chat template is of no known family, " + why_not;
    return {
        source.is_file ? errc::incompatible : errc::not_found,
        source.path + what + ", and " + source.type_key + " '" + source.type +
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
    return made;
}

std::string chat_template::families() {
    return template_family_names() + ", " + std::string(own_template_family);
}

result<chat_template> chat_template::make_own(std::string_view source,
                                              const special_spellings& spellings) {
    auto own = own_template::make(source, spellings);
    if (!own) return own.error();
    chat_template made;
    made.family_ = own_template_family;
    made.stop_tokens_ = own->stop_tokens();
    made.own_ = std::make_shared<const own_template>(*std::move(own));
    return made;
}

/// The model's own template goes last: a family's renderer and parser know more of its models.
template <class Source>
result<chat_template> chat_template::of_source(const Source& source, bool is_own) {
    const template_family* found = is_own ? nullptr : family_of_text(source.text, source.bos);
    if (found != nullptr) return make(found->name);
    found = is_own ? nullptr : family_of_type(source);
    if (found != nullptr) return assume(found->name, source.text.empty());
    if (source.text.empty()) return no_family(source, {});
    auto own = make_own(source.text, {source.bos, source.eos});
    if (!own) return no_family(source, own.error().what);
    return own;
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
    auto source = read_source(model);
    if (!source) return source.error();
    if (auto read = read_type(model, *source); !read) return read.error();
    return of_source(*source, is_own);
}

result<chat_template> chat_template::from_gguf(const storage::gguf_view& metadata,
                                               std::string_view family) {
    const bool is_own = family == own_template_family;
    if (!family.empty() && !is_own) return make(family);
    auto source = read_source(metadata);
    if (!source) return source.error();
    return of_source(*source, is_own);
}

result<chat_template> chat_template::assume(std::string_view family, bool has_none) {
    auto made = make(family);
    if (made) made->assumed_ = has_none ? "the model has no chat template" : "its own is not known";
    return made;
}

result<marked_text> chat_template::render_marked(const conversation& chat,
                                                 const render_options& options) const {
    const bool is_open =
        chat.end == prompt_end::inside_answer || chat.end == prompt_end::inside_message;
    auto made = is_open ? render_open_end(chat, options) : render_messages(chat, options);
    if (made && trusts_content_) return marked_text(made->bytes(), false);
    return made;
}

result<marked_text> chat_template::render_messages(const conversation& chat,
                                                   const render_options& options) const {
    auto messages = flatten(chat);
    if (!messages) return messages.error();
    const bool answer_begins = chat.end == prompt_end::answer_begins;
    const template_family* family = own_ != nullptr ? nullptr : find_template_family(family_);
    const auto render = [&]() -> result<marked_text> {
        if (family != nullptr) return family->render({*messages, chat.tools, options, *family});
        auto made = own_->render_marked(
            {*messages, chat.tools, options, answer_begins, chat.template_values});
        if (!made) return made.error();
        return marked_text(std::move(made->text), std::move(made->content));
    };
    if (family != nullptr) {
        auto known = check_template_values(chat.template_values, *family);
        if (!known) return known.error();
    }
    auto made = render();
    // Some templates take no system text but one.
    if (!made && join_opening_system_texts(*messages)) made = render();
    if (!made || answer_begins || family == nullptr) return made;
    // What begins the answer is what a renderer writes last.
    const auto begin = find_turn(made->bytes(), made->content(), family->turn_begin);
    return made->part(0, begin.value_or(made->size()));
}

/// The text is cut where its last message ends.
result<marked_text> chat_template::render_open_end(const conversation& chat,
                                                   const render_options& options) const {
    const bool is_answer = chat.end == prompt_end::inside_answer;
    conversation marked = chat;
    if (!mark_open_end(marked, is_answer ? role::assistant : role::user)) {
        return failure{errc::bad_value, "only a last message of the " +
                                            std::string(is_answer ? "assistant" : "user") +
                                            " that ends with text can be continued"};
    }
    auto made = render_messages(marked, options);
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
    return own_ != nullptr ? own_->prints_day() : find_template_family(family_)->prints_day;
}

std::string chat_template::thinking_end() const {
    if (own_ != nullptr) return thinking_end_of(own_->answers().thinking);
    return std::string(find_template_family(family_)->thinking_end);
}

answer_format chat_template::answers() const {
    return own_ != nullptr ? own_->answers() : find_template_family(family_)->answers;
}

std::string_view chat_template::turn_begin() const noexcept {
    return own_ != nullptr ? std::string_view(own_->turn_begin())
                           : find_template_family(family_)->turn_begin;
}

std::string chat_template::identity() const {
    if (own_ != nullptr) return own_->identity();
    return family_ + "/" + std::to_string(find_template_family(family_)->version);
}

}  // namespace semantic::engine

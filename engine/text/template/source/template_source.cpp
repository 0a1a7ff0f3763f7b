// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/source/template_source.hpp"

#include <boost/json.hpp>

#include <filesystem>

#include "engine/text/gguf/gguf_fields.hpp"
#include "engine/text/tokenizer/json_access.hpp"
#include "storage/files/file.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

// Bounds against damaged files: of one file, and of templates by name.
constexpr std::uint64_t file_bytes_max = std::uint64_t{64} << 20;
constexpr std::size_t named_templates_max = 64;
constexpr const char* default_name = "default";
constexpr const char* tools_name = "tool_use";

/// Templates by their names.
using named_templates = std::map<std::string, std::string>;

/// Reads the member chat_template: a text (the default template), a list of {"name", "template"},
/// or an object of templates by their names. Those beyond named_templates_max are left out.
named_templates templates_in(const boost::json::value& config) {
    named_templates found;
    if (const boost::json::array* list = array_of(config, "chat_template")) {
        for (const auto& item : *list)
            if (found.size() < named_templates_max)
                found.emplace(text_of(item, "name"), text_of(item, "template"));
    } else if (const auto* object = member(config, "chat_template").if_object()) {
        for (const auto& [name, text] : *object)
            if (text.is_string() && found.size() < named_templates_max)
                found.emplace(name, std::string(text.get_string()));
    } else if (std::string text = text_of(config, "chat_template"); !text.empty()) {
        found.emplace(default_name, std::move(text));
    }
    return found;
}

/// Sets the source's texts from all of a model's templates. Without a default template the one for
/// tools takes its place, since it also renders conversations without tools. Without either,
/// `others` gets the names that there are, for the error message.
void choose(named_templates templates, template_source& source) {
    source.text = templates[default_name];
    source.tools_text = templates[tools_name];
    if (source.text.empty()) source.text.swap(source.tools_text);
    if (!source.text.empty()) return;
    for (const auto& [name, text] : templates) {
        if (text.empty()) continue;
        source.others += (source.others.empty() ? "" : ", ") + name;
    }
}

/// A token's spelling, which some files write as a string and others as an object with "content".
std::string spelling_of(const boost::json::value& config, std::string_view key) {
    const boost::json::value& token = member(config, key);
    return token.is_object() ? text_of(token, "content") : text_of(config, key);
}

/// Reads a JSON file; a null value when there is no such file. Errors: corrupt when it is no JSON;
/// those of reading.
result<boost::json::value> read_json_file(const std::string& path) {
    auto text = storage::read_whole(storage::posix_file_system(), path, file_bytes_max);
    if (!text && text.error().code == errc::not_found) return boost::json::value();
    if (!text) return text.error();
    boost::system::error_code error;
    boost::json::value json = boost::json::parse(*text, error);
    if (error) return failure{errc::corrupt, path + ": not JSON: " + error.message()};
    return json;
}

/// Throws std::filesystem::filesystem_error when the folder cannot be read on.
/// Adds the templates in the model's folder additional_chat_templates, each named as its file
/// without ".jinja". No such folder is no error.
result<void> read_additional(const std::string& directory, named_templates& templates) {
    std::error_code none;
    std::filesystem::directory_iterator entries(directory + "/additional_chat_templates", none);
    for (const auto& entry : entries) {
        if (entry.path().extension() != ".jinja") continue;
        if (templates.size() >= named_templates_max) break;
        auto text = storage::read_whole(storage::posix_file_system(), entry.path().string(),
                                        file_bytes_max);
        if (!text) return text.error();
        templates[entry.path().stem().string()] = *std::move(text);
    }
    return {};
}

}  // namespace

result<template_source> read_template_source(const std::string& directory) {
    template_source source;
    source.path = directory + "/tokenizer_config.json";
    auto config = read_json_file(source.path);
    if (!config) return config.error();
    named_templates templates = templates_in(*config);
    source.bos = spelling_of(*config, "bos_token");
    source.eos = spelling_of(*config, "eos_token");
    // As in Hugging Face's library, chat_template.json (of a model's processor) overrides the
    // templates in tokenizer_config.json, and the file chat_template.jinja replaces all of them.
    const std::string processor = directory + "/chat_template.json";
    auto wrapped = read_json_file(processor);
    if (!wrapped) return wrapped.error();
    if (named_templates own = templates_in(*wrapped); !own.empty()) {
        source.path = processor;
        for (auto& [name, text] : own) templates[name] = std::move(text);
    }
    const std::string sibling = directory + "/chat_template.jinja";
    auto own = storage::read_whole(storage::posix_file_system(), sibling, file_bytes_max);
    if (!own && own.error().code != errc::not_found) return own.error();
    if (own) {
        source.path = sibling;
        templates.clear();
        templates[default_name] = *std::move(own);
    }
    if (auto read = read_additional(directory, templates); !read) return read.error();
    source.is_file = !templates.empty() || !config->is_null() || !wrapped->is_null();
    choose(std::move(templates), source);
    auto type = read_json_file(directory + "/config.json");
    if (!type) return type.error();
    source.type_key = "model_type";
    source.type = text_of(*type, "model_type");
    return source;
}

result<template_source> read_template_source(const storage::gguf_view& metadata) {
    template_source source;
    source.path = "tokenizer.chat_template";
    source.type_key = "general.architecture";
    named_templates templates;
    const auto read = [&](const std::string& name, const std::string& key) -> result<void> {
        const auto text = gguf_fields::text(metadata, key);
        if (!text) return text.error();
        templates.emplace(name, *text);
        return {};
    };
    if (auto done = read(default_name, source.path); !done) return done.error();
    const auto names = gguf_fields::strings(metadata, "tokenizer.chat_templates");
    if (!names) return names.error();
    std::string listed;  // the names that the file lists, even of templates whose texts are missing
    if (*names != nullptr) {
        for (const std::string_view name : (*names)->strings) {
            listed += (listed.empty() ? "" : ", ") + std::string(name);
            if (name == default_name || templates.size() >= named_templates_max) continue;
            auto done = read(std::string(name), source.path + "." + std::string(name));
            if (!done) return done.error();
        }
    }
    // It need not be listed; emplace() keeps one that was read above.
    if (auto done = read(tools_name, source.path + "." + tools_name); !done) return done.error();
    choose(std::move(templates), source);
    if (source.text.empty()) source.others = listed;
    const auto type = gguf_fields::text(metadata, source.type_key);
    if (!type) return type.error();
    source.type = *type;
    const auto tokens = gguf_fields::strings(metadata, "tokenizer.ggml.tokens");
    if (!tokens) return tokens.error();
    for (const auto& [key, spelling] : {std::pair{"tokenizer.ggml.bos_token_id", &source.bos},
                                        {"tokenizer.ggml.eos_token_id", &source.eos}}) {
        const auto id = gguf_fields::number(metadata, key);
        if (!id) return id.error();
        // An id that is no token has no spelling.
        if (id->has_value() && *tokens != nullptr && **id < (*tokens)->count)
            *spelling = (*tokens)->strings[static_cast<std::size_t>(**id)];
    }
    return source;
}

}  // namespace semantic::engine

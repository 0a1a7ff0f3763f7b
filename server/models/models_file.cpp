// SPDX-License-Identifier: Apache-2.0
#include "server/models/models_file.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>
#include <yaml-cpp/yaml.h>

namespace semantic::server {

namespace {

using storage::failure;
using storage::result;

constexpr std::array<std::string_view, 9> options_of_models{
    "weights",         "chat-template", "tokenizer-pre", "trust-content", "context-tokens",
    "cache-budget-mb", "kv-recipe",     "max-batch",     "max-hot-agents"};

struct syntax_fault {
    int line;  // from 1; 0: of the whole file
    std::string message;
};

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

/// Throws syntax_fault with the line of `at`. All functions below that read nodes throw it.
[[noreturn]] void refuse(const YAML::Node& at, std::string message) {
    throw syntax_fault{line_of(at), std::move(message)};
}

/// The option that a model may have of its own; null for other names.
const config_option* find_model_option(std::string_view name) {
    if (std::find(options_of_models.begin(), options_of_models.end(), name) ==
        options_of_models.end())
        return nullptr;
    const auto all = config_options();
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
    return at == all.end() ? nullptr : &*at;
}

/// A key; it may be written with underscores in place of dashes.
std::string key_of(const YAML::Node& node) {
    if (!node.IsScalar()) refuse(node, "a key must be a word");
    std::string key = node.Scalar();
    std::replace(key.begin(), key.end(), '_', '-');
    return key;
}

/// The text of a value. `key` is for errors.
std::string word_of(const std::string& key, const YAML::Node& node) {
    if (!node.IsScalar()) refuse(node, key + " must be one word or number");
    if (node.Scalar().empty()) refuse(node, key + " must not be empty");
    return node.Scalar();
}

/// A model's name: without white space and not too long.
std::string name_of(const std::string& key, const YAML::Node& node) {
    std::string name = word_of(key, node);
    const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) != 0x7f;
    });
    if (!is_plain) refuse(node, key + " '" + name + "' has white space or control characters");
    if (name.size() > model_name_bytes_max)
        refuse(node, key + " has more than " + std::to_string(model_name_bytes_max) + " bytes");
    return name;
}

/// Calls `take(key, key's node, value)` for every key of a map. Refuses keys that are given twice.
/// `subject` is for errors.
template <class Take>
void each_key(const YAML::Node& map, const std::string& subject, Take take) {
    if (!map.IsMap()) refuse(map, subject + " must be keys with values");
    std::set<std::string> seen;
    for (const auto& entry : map) {
        const std::string key = key_of(entry.first);
        if (!seen.insert(key).second) refuse(entry.first, "'" + key + "' is given twice");
        // "models" without a value is an empty list.
        if (entry.second.IsNull() && key != "models") refuse(entry.first, key + " has no value");
        take(key, entry.first, entry.second);
    }
}

class file_reader {
  public:
    /// Reads the whole file. Throws syntax_fault.
    models_file read(const YAML::Node& root) {
        if (root.IsNull()) return {};
        models_file file;
        YAML::Node default_node;
        each_key(root, "the file", [&](const auto& key, const auto& at, const auto& value) {
            if (key == "default") {
                file.default_name = name_of(key, value);
            } else if (key == "models") {
                file.models = models_of(value);
            } else {
                refuse(at, "unknown key '" + key + "' (known: default, models)");
            }
        });
        return file;
    }

  private:
    std::vector<listed_model> models_of(const YAML::Node& list) {
        if (list.IsNull()) return {};
        if (!list.IsSequence()) refuse(list, "models must be a list");
        if (list.size() > listed_models_max)
            refuse(list, "models has more than " + std::to_string(listed_models_max) + " entries");
        std::vector<listed_model> models;
        for (const YAML::Node& each : list) models.push_back(model_of(each));
        return models;
    }

    /// Reads one model: its names, its path, and options of its own.
    listed_model model_of(const YAML::Node& node) {
        listed_model model;
        each_key(node, "a model", [&](const auto& key, const auto& at, const auto& value) {
            if (key == "name") {
                model.name = taken_once(name_of(key, value), value);
            } else if (key == "path") {
                model.path = word_of(key, value);
            } else if (key == "aliases") {
                model.aliases = aliases_of(value);
            } else if (const config_option* option = find_model_option(key); option != nullptr) {
                model.settings.push_back(setting_of(*option, value));
            } else {
                refuse(at, "unknown key '" + key + "' (known: name, path, aliases" + known() + ")");
            }
        });
        if (model.name.empty()) refuse(node, "a model needs a name");
        return model;
    }

    /// Reads a list of aliases.
    std::vector<std::string> aliases_of(const YAML::Node& list) {
        if (!list.IsSequence()) refuse(list, "aliases must be a list");
        if (list.size() > aliases_max)
            refuse(list, "aliases has more than " + std::to_string(aliases_max) + " entries");
        std::vector<std::string> names;
        for (const YAML::Node& each : list)
            names.push_back(taken_once(name_of("an alias", each), each));
        return names;
    }

    /// Reads an option's value, and checks that the option takes it.
    static model_setting setting_of(const config_option& option, const YAML::Node& node) {
        const std::string key(option.name);
        model_setting setting{&option, word_of(key, node)};
        config scratch;
        const std::string why = option.set(scratch, setting.value);
        if (!why.empty()) refuse(node, key + " '" + setting.value + "' " + why);
        return setting;
    }

    /// The name, unless a model has it already.
    std::string taken_once(std::string name, const YAML::Node& at) {
        if (!names_.insert(name).second)
            refuse(at, "'" + name + "' is given twice, as a name or an alias");
        return name;
    }

    static std::string known() {
        std::string list;
        for (const std::string_view each : options_of_models) list.append(", ").append(each);
        return list;
    }

    std::set<std::string> names_;
};

failure fault_at(const std::string& called, int line, const std::string& message) {
    const std::string place = line > 0 ? called + ":" + std::to_string(line) : called;
    return {storage::errc::bad_value, place + ": " + message};
}

}  // namespace

std::span<const std::string_view> model_options() { return options_of_models; }

result<models_file> parse_models_file(const std::string& text, const std::string& called) try {
    if (text.size() > models_file_bytes_max)
        return fault_at(called, 0,
                        "has more than " + std::to_string(models_file_bytes_max) + " bytes");
    return file_reader().read(YAML::Load(text));
} catch (const syntax_fault& fault) {
    return fault_at(called, fault.line, fault.message);
} catch (const YAML::Exception& error) {
    return fault_at(called, error.mark.is_null() ? 0 : error.mark.line + 1, error.msg);
}

result<models_file> read_models_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    // One byte more than may be, so that a longer file is refused and not cut.
    std::string text(models_file_bytes_max + 1, '\0');
    if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad() || (!file && !file.eof()))
        return failure{storage::errc::not_found, "cannot read the models file " + path};
    text.resize(static_cast<std::size_t>(file.gcount()));
    return parse_models_file(text, path);
}

config with_settings(config base, const std::vector<model_setting>& settings) {
    for (const model_setting& each : settings) {
        // kv-bits is an older option for the same; the server's value would override the model's
        // recipe.
        if (each.option->name == "kv-recipe") base.kv_bits = "auto";
        // Succeeds, since setting_of() has tried the value.
        each.option->set(base, each.value);
    }
    return base;
}

}  // namespace semantic::server

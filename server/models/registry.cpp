// SPDX-License-Identifier: Apache-2.0
#include "server/models/registry.hpp"

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <utility>

namespace semantic::server {

namespace {

using storage::failure;
using storage::result;

constexpr std::size_t names_shown = 12;

using model_list = std::vector<registered_model>;

/// The index of the model with that name or alias.
std::optional<std::size_t> find_in(const model_list& models, std::string_view name) {
    for (std::size_t i = 0; i < models.size(); ++i) {
        const auto& aliases = models[i].aliases;
        if (models[i].name == name ||
            std::find(aliases.begin(), aliases.end(), name) != aliases.end())
            return i;
    }
    return std::nullopt;
}

/// The path in one spelling, for comparisons: "a/../b" is "b".
std::filesystem::path plain(const std::string& path) {
    std::error_code ec;
    std::filesystem::path whole = std::filesystem::absolute(path, ec).lexically_normal();
    return whole.has_filename() ? whole : whole.parent_path();
}

/// The index of the model whose files are at `path`.
std::optional<std::size_t> find_path(const model_list& models, const std::string& path) {
    const auto at = std::find_if(models.begin(), models.end(), [&](const auto& each) {
        return !each.path.empty() && plain(each.path) == plain(path);
    });
    if (at == models.end()) return std::nullopt;
    return static_cast<std::size_t>(at - models.begin());
}

/// A model of the file, with its files looked up.
registered_model listed(const listed_model& model, const registry_sources& from) {
    registered_model made{model.name, model.aliases, {}, model.settings, {}};
    const auto at = std::find_if(from.folder.begin(), from.folder.end(), [&](const auto& each) {
        return model.path.empty() && each.id == model.name;
    });
    if (at != from.folder.end()) {
        made.path = at->path;
        return made;
    }
    auto found = from.find(model.path.empty() ? model.name : model.path);
    if (found)
        made.path = std::move(found->path);
    else
        made.fault = found.error().what;
    return made;
}

/// Adds the models of --models-dir that the file does not have. One whose name is taken becomes a
/// note.
void add_folder(model_list& models, const registry_sources& from, std::vector<std::string>& notes) {
    for (const found_model& each : from.folder) {
        if (find_path(models, each.path)) continue;
        if (find_in(models, each.id)) {
            notes.push_back(each.path + " is left out: " + from.models_file_name +
                            " gives its name, " + each.id + ", to another model");
            continue;
        }
        models.push_back({each.id, {}, each.path, {}, {}});
    }
}

/// The model of --model, which is added where the registry does not have it. Errors: as
/// make_registry().
result<std::size_t> add_wanted(model_list& models, const registry_sources& from) {
    if (auto known = find_in(models, from.wanted)) return *known;
    auto found = from.find(from.wanted);
    if (!found) return found.error();
    if (auto known = find_path(models, found->path)) return *known;
    if (find_in(models, found->id))
        return failure{storage::errc::bad_value,
                       "--model " + from.wanted + " would be called " + found->id +
                           ", which is the name of another model already"};
    models.push_back({found->id, {}, found->path, {}, {}});
    return models.size() - 1;
}

/// Chooses the model to start with. Errors: as make_registry().
result<std::size_t> choose_start(model_list& models, const registry_sources& from) {
    // In this order: --model, the file's default, its first model, a folder's only model, the
    // embedded one.
    if (!from.wanted.empty()) return add_wanted(models, from);
    if (!from.file.default_name.empty()) {
        if (auto known = find_in(models, from.file.default_name)) return *known;
        return failure{storage::errc::bad_value, from.models_file_name + ": default '" +
                                                     from.file.default_name +
                                                     "' is none of its models"};
    }
    if (!from.file.models.empty() || models.size() == 1) return std::size_t{0};
    if (models.size() > 1)
        return failure{storage::errc::not_found,
                       "--models-dir has several models, name the one to start "
                       "with by --model: " +
                           registry(models, 0).names()};
    if (from.embedded.empty())
        return failure{storage::errc::not_found,
                       "the embedded model is not next to this program; name one with --model"};
    auto found = from.find(from.embedded);
    if (!found) return found.error();
    models.push_back({found->id, {}, found->path, {}, {}});
    return std::size_t{0};
}

}  // namespace

registry::registry(std::vector<registered_model> models, std::size_t start)
    : models_(std::move(models)), start_(start) {
    assert(start_ < models_.size());
}

std::optional<std::size_t> registry::find(std::string_view name) const {
    constexpr std::string_view latest = ":latest";
    const auto found = find_in(models_, name);
    if (found || !name.ends_with(latest)) return found;
    return find_in(models_, name.substr(0, name.size() - latest.size()));
}

std::optional<std::size_t> registry::resolve(std::string_view name, std::size_t otherwise,
                                             bool strict) const {
    if (auto known = find(name)) return known;
    if (strict) return std::nullopt;
    return otherwise;
}

std::string registry::names() const {
    std::string text;
    for (std::size_t i = 0; i < std::min(models_.size(), names_shown); ++i)
        text.append(i == 0 ? "" : ", ").append(models_[i].name);
    if (models_.size() > names_shown)
        text += " and " + std::to_string(models_.size() - names_shown) + " more";
    return text;
}

result<made_registry> make_registry(const registry_sources& from) {
    model_list models;
    std::vector<std::string> notes;
    for (const listed_model& each : from.file.models) models.push_back(listed(each, from));
    add_folder(models, from, notes);
    auto start = choose_start(models, from);
    if (!start) return start.error();
    if (const registered_model& first = models[*start]; !first.fault.empty())
        return failure{storage::errc::not_found, first.fault};
    for (const registered_model& each : models)
        if (!each.fault.empty()) notes.push_back(each.name + " cannot be loaded: " + each.fault);
    return made_registry{registry(std::move(models), *start), std::move(notes)};
}

}  // namespace semantic::server

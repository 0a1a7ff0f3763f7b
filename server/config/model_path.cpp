// SPDX-License-Identifier: Apache-2.0
#include "server/config/model_path.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "server/config/name_list.hpp"
#include "server/config/quantisations.hpp"

namespace semantic::server {

namespace {

namespace fs = std::filesystem;
using storage::errc;
using storage::failure;
using storage::result;

constexpr std::string_view gguf_ending = ".gguf";
constexpr std::string_view hub_prefix = "models--";
constexpr const char* default_model = "semantic-tiny";

std::string lower_case(std::string_view text) {
    std::string copy(text);
    for (char& c : copy) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return copy;
}

/// A folder's entries by name, links followed; none where it cannot be read.
std::map<std::string, fs::directory_entry> entries_of(const fs::path& folder) {
    std::map<std::string, fs::directory_entry> found;
    std::error_code ec;
    for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec))
        found.emplace(at->path().filename().string(), *at);
    return found;
}

bool is_folder(const fs::directory_entry& entry) {
    std::error_code ec;
    return entry.is_directory(ec);
}

/// Whether the file is a GGUF model. mmproj files hold a model's vision part.
bool is_gguf(const std::string& file_name) {
    return lower_case(file_name).ends_with(gguf_ending) &&
           !lower_case(file_name).starts_with("mmproj");
}

/// The GGUF models of a folder: name without ending and part number -> the first file.
std::map<std::string, fs::path> gguf_models_here(const fs::path& folder) {
    std::map<std::string, fs::path> models;
    for (const auto& [name, entry] : entries_of(folder))
        if (!is_folder(entry) && is_gguf(name) && !name.starts_with('.'))
            models.emplace(gguf_stem(name), entry.path());
    return models;
}

/// The GGUF models of a folder and of its sub-folders, in which some repositories keep their
/// quantisations: path without ending and part number -> the first file. Ordered by name.
std::map<std::string, fs::path> gguf_models(const fs::path& folder) {
    std::map<std::string, fs::path> models;
    for (const auto& [name, entry] : entries_of(folder)) {
        if (!is_folder(entry)) {
            if (is_gguf(name)) models.emplace(gguf_stem(name), entry.path());
            continue;
        }
        for (const auto& [inner, file] : entries_of(entry.path()))
            if (!is_folder(file) && is_gguf(inner))
                models.emplace(name + "/" + gguf_stem(inner), file.path());
    }
    return models;
}

std::vector<std::string> names_of(const std::map<std::string, fs::path>& models) {
    std::vector<std::string> names;
    for (const auto& [name, path] : models) names.push_back(name);
    return names;
}

bool holds_safetensors(const fs::path& folder) {
    const auto entries = entries_of(folder);
    return std::any_of(entries.begin(), entries.end(),
                       [](const auto& each) { return each.first.ends_with(".safetensors"); });
}

/// Chooses the GGUF model that the words after the colon (`asked`) mean. `called` names the
/// repository in errors. Errors: not_found, where none or several are meant.
result<std::string> choose(const std::string& called, const std::map<std::string, fs::path>& models,
                           std::string_view asked) {
    std::map<std::string, fs::path> meant;
    for (const auto& [name, path] : models)
        if (is_meant(name, gguf_stem(asked))) meant.emplace(name, path);
    if (meant.size() == 1) return meant.begin()->second.string();
    const auto& shown = meant.empty() ? models : meant;
    const std::string asked_for = "\"" + std::string(asked) + "\"";
    if (shown.empty()) return failure{errc::not_found, called + ": there is no .gguf file in it"};
    return failure{errc::not_found, called + ": " + asked_for + " means " +
                                        (meant.empty() ? "none" : "several") +
                                        " of its models: " + list_names(names_of(shown))};
}

/// The model of a folder: the folder itself, or its only GGUF file. `called` names it in errors.
/// Errors: not_found, where it has none or several.
result<std::string> model_of_folder(const std::string& called, const fs::path& folder) {
    std::error_code ec;
    const bool has_config = fs::exists(folder / "config.json", ec);
    if (has_config && holds_safetensors(folder)) return folder.string();
    const auto models = gguf_models(folder);
    if (models.size() == 1) return models.begin()->second.string();
    if (models.size() > 1)
        return failure{errc::not_found, called + ": there are several models in it, name one: " +
                                            list_names(names_of(models))};
    if (has_config) return folder.string();  // the loader says what it lacks
    return failure{errc::not_found, called +
                                        ": there is no model in it: neither config.json with "
                                        "*.safetensors nor a .gguf file"};
}

/// The name ORG/NAME of a folder models--ORG--NAME of the Hugging Face cache; nothing for others.
std::optional<std::string> name_at_hub(const std::string& folder) {
    if (!folder.starts_with(hub_prefix)) return std::nullopt;
    std::string name = folder.substr(hub_prefix.size());
    if (const auto at = name.find("--"); at != name.npos) name.replace(at, 2, "/");
    return name;
}

/// The folder of ORG/NAME in the Hugging Face cache: models--ORG--NAME.
std::string hub_folder(std::string name) {
    if (const auto at = name.find('/'); at != name.npos) name.replace(at, 1, "--");
    return std::string(hub_prefix) + name;
}

/// The snapshot of a repository in the Hugging Face cache: the one that its branch main names, or
/// the only one. Errors: not_found.
result<fs::path> snapshot_of(const std::string& name, const fs::path& repository) {
    std::string commit;
    std::ifstream(repository / "refs" / "main") >> commit;
    const auto snapshots = entries_of(repository / "snapshots");
    if (const auto at = snapshots.find(commit); at != snapshots.end()) return at->second.path();
    if (commit.empty() && snapshots.size() == 1) return snapshots.begin()->second.path();
    return failure{errc::not_found, name + ": " + repository.string() + " has no snapshot of " +
                                        (commit.empty() ? "its branch main" : commit) +
                                        "; download it again"};
}

/// What clients call the model at `path`: the last name of the path, or ORG/NAME for a snapshot in
/// the Hugging Face cache.
std::string id_of(const fs::path& path) {
    std::error_code ec;
    fs::path whole = fs::absolute(path, ec).lexically_normal();
    if (!whole.has_filename()) whole = whole.parent_path();
    if (whole.parent_path().filename() == "snapshots")
        if (auto name = name_at_hub(whole.parent_path().parent_path().filename().string()))
            return *name;
    return gguf_stem(whole.filename().string());
}

/// Whether the file begins with the magic number of GGUF.
bool starts_as_gguf(const fs::path& path) {
    char magic[4]{};
    std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
    return std::string_view(magic, sizeof magic) == "GGUF";
}

/// The model at a path that exists. Errors: as model_of_folder(); incompatible, for a file that is
/// no model.
result<found_model> model_at(const fs::path& path) {
    std::error_code ec;
    if (fs::is_directory(path, ec)) {
        auto file = model_of_folder(path.string(), path);
        if (!file) return file.error();
        return found_model{std::move(*file), id_of(path)};
    }
    if (!lower_case(path.string()).ends_with(gguf_ending) && !starts_as_gguf(path))
        return failure{errc::incompatible,
                       path.string() +
                           ": a model is a folder with config.json and *.safetensors, or a .gguf "
                           "file, and this is neither"};
    return found_model{path.string(), id_of(path)};
}

/// The models that the user put into ~/.semantic/models: NAME/, NAME.gguf or
/// NAME-00001-of-000NN.gguf.
std::map<std::string, fs::path> own_models(const fs::path& own) {
    std::map<std::string, fs::path> models;
    for (const auto& [name, entry] : entries_of(own)) {
        if (name.starts_with('.')) continue;  // what is not complete yet
        if (is_folder(entry)) models.emplace(name, entry.path());
        if (!is_folder(entry) && is_gguf(name)) models.emplace(gguf_stem(name), entry.path());
    }
    return models;
}

/// The models that come with the program: each folder of `embedded` with a config.json.
std::map<std::string, fs::path> embedded_models(const fs::path& embedded) {
    std::map<std::string, fs::path> models;
    std::error_code ec;
    for (const auto& [name, entry] : entries_of(embedded))
        if (fs::exists(entry.path() / "config.json", ec)) models.emplace(name, entry.path());
    return models;
}

/// The names ORG/NAME of all repositories in the Hugging Face cache.
std::vector<std::string> hub_models(const fs::path& hub) {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_of(hub))
        if (auto model = name_at_hub(name)) names.push_back(std::move(*model));
    return names;
}

/// The model of a repository in the Hugging Face cache. `asked`: a file or quantisation; empty: the
/// only one. Errors: not_found.
result<found_model> model_of_hub(const std::string& name, std::string_view asked,
                                 const fs::path& repository) {
    const auto snapshot = snapshot_of(name, repository);
    if (!snapshot) return snapshot.error();
    auto file = asked.empty() ? model_of_folder(name, *snapshot)
                              : choose(name, gguf_models(*snapshot), asked);
    if (!file) return file.error();
    return found_model{std::move(*file), asked.empty() ? name : name + ":" + std::string(asked)};
}

/// The error for a model that was not found: says in which folders it was looked for and which
/// models those have. `is_name`: it could be a name, and was not only looked for as a path.
failure no_model(const std::string& name, bool is_name, const model_places& places) {
    std::string message = "model " + name + ": no such file or folder";
    if (!is_name) return {errc::not_found, std::move(message)};
    const auto add_folder = [&message](const fs::path& folder,
                                       const std::vector<std::string>& models) {
        if (folder.empty()) return;
        message += ", nor in " + folder.string();
        message += models.empty() ? " (where no models are)"
                                  : " (where there are " + list_names(models) + ")";
    };
    if (name.find('/') == name.npos) {
        add_folder(places.own, names_of(own_models(places.own)));
        add_folder(places.embedded, names_of(embedded_models(places.embedded)));
    }
    add_folder(places.hub, hub_models(places.hub));
    return {errc::not_found, std::move(message)};
}

/// The path with a leading ~/ replaced by the home directory.
fs::path at_home(std::string_view named, const model_places& places) {
    if (named.starts_with("~/") && !places.home.empty()) return places.home / named.substr(2);
    return fs::path(named);
}

fs::path path_in(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? fs::path() : fs::path(value);
}

}  // namespace

fs::path executable_path(const std::string& argv0) {
    std::error_code ec;
    fs::path self = fs::read_symlink("/proc/self/exe", ec);
    if (!ec) return self;
    self = fs::canonical(argv0, ec);
    return ec ? fs::path(argv0) : self;
}

std::string find_embedded_model(const fs::path& executable) {
    const fs::path models = find_embedded_models(executable);
    return models.empty() ? std::string() : (models / default_model).string();
}

fs::path find_embedded_models(const fs::path& executable) {
    const fs::path bin = executable.parent_path();
    for (const char* candidate : {"../share/semantic/models", "../../etc/models"}) {
        std::error_code ec;
        fs::path folder = (bin / candidate).lexically_normal();
        if (fs::exists(folder / default_model / "config.json", ec)) return folder;
    }
    return {};
}

model_places model_places::of_environment() {
    model_places places;
    places.home = path_in("HOME");
    fs::path cache = path_in("XDG_CACHE_HOME");
    if (!places.home.empty()) {
        places.own = places.home / ".semantic" / "models";
        if (cache.empty()) cache = places.home / ".cache";
    }
    fs::path hugging_face = path_in("HF_HOME");
    if (hugging_face.empty() && !cache.empty()) hugging_face = cache / "huggingface";
    places.embedded = find_embedded_models(executable_path(""));
    places.hub = path_in("HF_HUB_CACHE");
    if (places.hub.empty() && !hugging_face.empty()) places.hub = hugging_face / "hub";
    return places;
}

std::string gguf_stem(std::string_view file_name) {
    if (!lower_case(file_name).ends_with(gguf_ending)) return std::string(file_name);
    file_name.remove_suffix(gguf_ending.size());
    // A pattern in which every digit matches any digit.
    constexpr std::string_view part = "-00001-of-00003";
    if (file_name.size() <= part.size()) return std::string(file_name);
    const std::string_view end = file_name.substr(file_name.size() - part.size());
    const auto same_kind = [](char found, char shown) {
        const bool digit = std::isdigit(static_cast<unsigned char>(shown)) != 0;
        return digit ? std::isdigit(static_cast<unsigned char>(found)) != 0 : found == shown;
    };
    if (std::equal(end.begin(), end.end(), part.begin(), same_kind))
        file_name.remove_suffix(part.size());
    return std::string(file_name);
}

result<models_in_folder> models_in(const std::string& folder, const model_places& places) {
    const fs::path root = at_home(folder, places);
    std::error_code ec;
    fs::directory_iterator(root, ec);
    if (ec) return failure{errc::not_found, root.string() + ": " + ec.message()};
    models_in_folder found;
    for (const auto& [name, entry] : entries_of(root)) {
        if (name.starts_with('.')) continue;  // what is not complete yet
        if (!is_folder(entry)) continue;
        const fs::path inside = entry.path();
        if (fs::exists(inside / "adapter_config.json", ec)) {
            found.notes.push_back(inside.string() +
                                  " has an adaptation (LoRA) in it, which this server does not "
                                  "apply");
            if (!fs::exists(inside / "config.json", ec)) continue;
        }
        const auto files = gguf_models(inside);
        if (fs::exists(inside / "config.json", ec) && (files.empty() || holds_safetensors(inside)))
            found.models.push_back({inside.string(), name});
        else if (files.size() == 1)
            found.models.push_back({files.begin()->second.string(), name});
        else
            for (const auto& [stem, file] : files)
                found.models.push_back({file.string(), name + "/" + stem});
    }
    for (const auto& [name, file] : gguf_models_here(root))
        found.models.push_back({file.string(), name});
    std::sort(found.models.begin(), found.models.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    return found;
}

result<found_model> find_model(std::string_view named, const model_places& places) {
    const fs::path path = at_home(named, places);
    std::error_code ec;
    if (fs::exists(path, ec)) return model_at(path);
    const std::size_t colon = named.find(':');
    const std::string name(named.substr(0, colon));
    const std::string_view asked = colon == named.npos ? "" : named.substr(colon + 1);
    const auto slashes = std::count(name.begin(), name.end(), '/');
    const bool is_name = slashes <= 1 && !name.empty() && !name.ends_with('/') &&
                         name.front() != '/' && name.front() != '.' && name.front() != '~';
    if (is_name && slashes == 0 && asked.empty()) {
        for (const auto& models : {own_models(places.own), embedded_models(places.embedded)}) {
            const auto at = models.find(gguf_stem(name));
            if (at == models.end()) continue;
            auto found = model_at(at->second);
            if (found) found->id = at->first;
            return found;
        }
    }
    if (is_name && !places.hub.empty()) {
        const fs::path repository = places.hub / hub_folder(name);
        if (fs::is_directory(repository, ec)) return model_of_hub(name, asked, repository);
    }
    return no_model(std::string(named), is_name, places);
}

}  // namespace semantic::server

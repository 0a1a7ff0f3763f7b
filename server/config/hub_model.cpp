// SPDX-License-Identifier: Apache-2.0
#include "server/config/hub_model.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include "server/config/name_list.hpp"
#include "server/config/quantisations.hpp"

namespace semantic::server {

namespace {

namespace fs = std::filesystem;
using storage::errc;
using storage::failure;
using storage::hub_file;
using storage::result;

constexpr const char* revision = "main";

std::string lower(std::string_view text) {
    std::string copy(text);
    for (char& c : copy) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return copy;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Bytes for people: "2.5 GB", "12.3 MB".
std::string amount(std::uint64_t bytes) {
    char text[32];
    const auto number = static_cast<double>(bytes);
    if (bytes < 1'000'000)
        std::snprintf(text, sizeof text, "%.0f kB", number / 1e3);
    else if (bytes < 1'000'000'000)
        std::snprintf(text, sizeof text, "%.1f MB", number / 1e6);
    else
        std::snprintf(text, sizeof text, "%.1f GB", number / 1e9);
    return text;
}

/// Whether a GGUF file is a language model. Others accompany one: its vision part (mmproj), its
/// draft model (mtp) or statistics from quantisation (imatrix).
bool is_model_gguf(const std::string& path) {
    const std::string name = lower(file_name(path));
    return name.ends_with(".gguf") && !name.starts_with("mmproj") && !name.starts_with("mtp-") &&
           name.find("imatrix") == name.npos;
}

/// The name of a GGUF model: its path without the ending and part number.
std::string stem_of(const std::string& path) {
    return path.substr(0, path.size() - file_name(path).size()) + gguf_stem(file_name(path));
}

/// Whether a model of safetensors needs this file. All other files of a repository are not fetched.
bool is_part_of_folder(const std::string& path) {
    static constexpr std::array words{
        "config.json",           "generation_config.json",  "tokenizer.json",
        "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "chat_template.jinja",   "chat_template.json",      "model.safetensors.index.json"};
    if (path.starts_with("additional_chat_templates/"))
        return path.ends_with(".jinja") && std::count(path.begin(), path.end(), '/') == 1;
    if (path.find('/') != path.npos) return false;
    return path.ends_with(".safetensors") ||
           std::find(words.begin(), words.end(), path) != words.end();
}

/// Chooses all files of the repository's safetensors model. Errors: not_found, where there is none.
result<hub_choice> choose_folder(const std::vector<hub_file>& files) {
    hub_choice made;
    bool has_config = false, has_weights = false;
    for (const hub_file& file : files) {
        if (!is_part_of_folder(file.path)) continue;
        // Mistral's own copy of the weights, in addition to those in parts.
        if (file.path == "consolidated.safetensors") continue;
        has_config = has_config || file.path == "config.json";
        has_weights = has_weights || file.path.ends_with(".safetensors");
        made.bytes += file.bytes;
        made.files.push_back(file);
    }
    if (!has_config || !has_weights)
        return failure{errc::not_found,
                       "there is no model in it: neither a .gguf file nor config.json with "
                       "*.safetensors"};
    // config.json is fetched last: a folder that has it is complete.
    std::stable_partition(made.files.begin(), made.files.end(),
                          [](const hub_file& file) { return file.path != "config.json"; });
    return made;
}

/// The two parts of "hf:ORG/NAME:Q4_K_M": the repository, and the file or quantisation (empty:
/// none).
struct hub_name {
    std::string repository;
    std::string asked;
};

/// Splits a name, with or without hf:. Errors: bad_value.
result<hub_name> parse_name(std::string_view text) {
    if (text.starts_with(hub_mark)) text.remove_prefix(hub_mark.size());
    const std::size_t colon = text.find(':');
    hub_name made{std::string(text.substr(0, colon)),
                  colon == text.npos ? "" : std::string(text.substr(colon + 1))};
    if (!storage::is_hub_repository(made.repository) ||
        made.repository.find('/') == std::string::npos ||
        (colon != text.npos && made.asked.empty()))
        return failure{errc::bad_value,
                       "\"" + std::string(text) + "\" is no ORG/NAME[:FILE or QUANT] of a hub"};
    return made;
}

/// The name by which clients ask for the model.
std::string id_of(const hub_name& name) {
    return name.asked.empty() ? name.repository : name.repository + ":" + name.asked;
}

/// The names of a folder's entries; none where it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code ec;
    for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec))
        names.push_back(at->path().filename().string());
    return names;
}

/// The GGUF models of a snapshot and of its sub-folders: name -> path of the first part.
std::map<std::string, std::string> gguf_models_below(const fs::path& snapshot) {
    std::map<std::string, std::string> models;
    const auto add = [&](const std::string& path) {
        if (!is_model_gguf(path)) return;
        std::string& first = models[stem_of(path)];
        const std::string whole = (snapshot / path).string();
        if (first.empty() || whole < first) first = whole;
    };
    for (const std::string& name : names_in(snapshot)) {
        std::error_code ec;
        if (!fs::is_directory(snapshot / name, ec))
            add(name);
        else
            for (const std::string& inner : names_in(snapshot / name)) add(name + "/" + inner);
    }
    return models;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

bool is_true(const std::string& text) {
    const std::string word = lower(text);
    return word == "1" || word == "on" || word == "yes" || word == "true";
}

/// Which of the models `names` the word `asked` means; where it is empty, what
/// preferred_quantisation() chooses. An empty string: there are no GGUF models and none was asked
/// for. Errors: not_found, naming the candidates, where none or several are meant.
result<std::string> choose_name(std::string_view asked, const std::vector<std::string>& names) {
    if (asked.empty() && names.empty()) return std::string();
    std::vector<std::string> meant;
    if (asked.empty()) {
        if (const auto best = preferred_quantisation(names)) meant.push_back(names[*best]);
        if (meant.empty() && names.size() == 1) meant = names;
    } else {
        const std::string stem =
            lower(asked).ends_with(".gguf") ? stem_of(std::string(asked)) : std::string(asked);
        for (const std::string& name : names)
            if (is_meant(name, stem)) meant.push_back(name);
        // Of several matches one whose whole name was given wins.
        if (meant.size() > 1) {
            std::vector<std::string> exact;
            for (const std::string& name : meant)
                if (lower(name) == lower(stem)) exact.push_back(name);
            if (exact.size() == 1) meant = exact;
        }
    }
    if (meant.size() != 1)
        return failure{
            errc::not_found,
            (asked.empty() ? std::string("name one of its models: ")
                           : "\"" + std::string(asked) + "\" means " +
                                 (meant.empty() ? "none" : "several") + " of its models: ") +
                (names.empty() ? std::string("it has no .gguf file")
                               : list_names(meant.empty() ? names : meant))};
    return meant.front();
}

/// A sentence about a fetch before it begins: which files, their source, and whether disk and
/// memory have room.
std::string plan_text(const std::string& repository, const hub_choice& choice,
                      const std::string& commit, const std::string& endpoint,
                      const storage::hub_needs& needs, const std::string& root,
                      std::uint64_t memory) {
    std::string text = repository + ": " +
                       (choice.name.empty() ? "the folder of safetensors" : choice.name) + ", " +
                       amount(choice.bytes) + " in " + std::to_string(choice.files.size()) +
                       (choice.files.size() == 1 ? " file" : " files") + ", commit " +
                       commit.substr(0, 12) + " of " + endpoint;
    text += needs.missing_bytes == 0 ? "; all of it is here"
                                     : "; " + amount(needs.missing_bytes) + " are to come, " +
                                           root + " has " + amount(needs.free_bytes) + " free";
    if (memory > 0)
        text += "; its weights take " + amount(choice.bytes) + " of the " + amount(memory) +
                " of memory that this machine can give" +
                (choice.bytes > memory ? ": it does not fit" : "");
    return text;
}

}  // namespace

hub_settings hub_settings::of_environment() {
    hub_settings made;
    std::string endpoint = variable("HF_ENDPOINT");
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.empty()) made.endpoint = std::move(endpoint);
    made.token = variable("HF_TOKEN");
    made.is_offline = is_true(variable("HF_HUB_OFFLINE"));
    return made;
}

result<hub_choice> choose_hub_files(std::string_view asked, const std::vector<hub_file>& files) {
    std::map<std::string, std::vector<hub_file>> models;  // by name
    for (const hub_file& file : files)
        if (is_model_gguf(file.path)) models[stem_of(file.path)].push_back(file);
    std::vector<std::string> names;
    for (const auto& [name, parts] : models) names.push_back(name);
    auto chosen = choose_name(asked, names);
    if (!chosen) return chosen.error();
    if (chosen->empty()) return choose_folder(files);
    hub_choice made;
    made.name = std::move(*chosen);
    made.files = models.at(made.name);
    // Parts in falling order: the first one, by which the model is found, is fetched last.
    std::sort(made.files.begin(), made.files.end(),
              [](const hub_file& a, const hub_file& b) { return a.path > b.path; });
    for (const hub_file& file : made.files) made.bytes += file.bytes;
    for (std::string& name : names)
        if (name != made.name) made.others.push_back(std::move(name));
    return made;
}

result<found_model> fetch_hub_model(std::string_view name, const model_places& places,
                                    const hub_settings& settings, const hub_limits& limits,
                                    const hub_report& report, const std::stop_token& stop) {
    const auto parsed = parse_name(name);
    if (!parsed) return parsed.error();
    const std::string& repository = parsed->repository;
    if (settings.is_offline)
        return failure{errc::not_found, std::string(name) + " is not whole in " +
                                            places.hub.string() +
                                            ", and HF_HUB_OFFLINE says to ask no hub"};
    if (places.hub.empty())
        return failure{errc::not_found, "there is nowhere to put " + std::string(name) +
                                            ": none of HOME, HF_HOME and HF_HUB_CACHE is set"};
    storage::hub_options options;
    options.endpoint = settings.endpoint;
    options.token = settings.token;
    options.http.stop = stop;
    const storage::hub_client hub(options);
    const auto listing = hub.list(repository, revision);
    if (!listing) return listing.error();
    const auto choice = choose_hub_files(parsed->asked, listing->files);
    if (!choice) return failure{choice.error().code, repository + ": " + choice.error().what};
    const storage::hub_cache cache(storage::posix_file_system(), places.hub.string());
    const auto needs = cache.needs_of(repository, choice->files);
    if (!needs) return needs.error();
    if (report.say) {
        if (parsed->asked.empty() && !choice->others.empty())
            report.say(repository + ": takes " + choice->name +
                       ", since no form was named; there are also " + list_names(choice->others));
        report.say(plan_text(repository, *choice, listing->commit, settings.endpoint, *needs,
                             places.hub.string(), limits.memory_bytes));
    }
    if (limits.must_fit && limits.memory_bytes > 0 && choice->bytes > limits.memory_bytes)
        return failure{errc::out_of_space,
                       repository + ": " + amount(choice->bytes) +
                           " of weights do not fit into the " + amount(limits.memory_bytes) +
                           " of memory that this machine can give" +
                           (choice->others.empty()
                                ? std::string()
                                : "; name a smaller form of " + list_names(choice->others))};
    const fs::path snapshot = cache.snapshot_of(repository, listing->commit);
    found_model made{
        choice->name.empty() ? snapshot.string() : (snapshot / choice->files.back().path).string(),
        id_of(*parsed)};
    if (limits.only_says) return made;
    if (auto fetched =
            cache.fetch(hub, repository, listing->commit, choice->files, report.on_progress, stop);
        !fetched)
        return fetched.error();
    return made;
}

result<found_model> find_hub_model(std::string_view name, const model_places& places) {
    const auto parsed = parse_name(name);
    if (!parsed) return parsed.error();
    const std::string& repository = parsed->repository;
    std::string commit;
    const fs::path folder = places.hub / storage::hub_cache::folder_name(repository);
    if (!places.hub.empty()) std::ifstream(folder / "refs" / "main") >> commit;
    const fs::path snapshot = folder / "snapshots" / commit;
    std::error_code ec;
    if (commit.empty() || !fs::is_directory(snapshot, ec))
        return failure{errc::not_found, std::string(name) + " is not in " + places.hub.string() +
                                            "; semantic-eval fetch brings it"};
    // find_model() below gets an absolute path, so that a folder of that name in the current
    // directory is not taken for the model.
    const auto models = gguf_models_below(snapshot);
    std::vector<std::string> names;
    for (const auto& [stem, path] : models) names.push_back(stem);
    auto chosen = choose_name(parsed->asked, names);
    if (!chosen) return failure{errc::not_found, repository + ": " + chosen.error().what};
    auto found =
        find_model((chosen->empty() ? snapshot : fs::path(models.at(*chosen))).string(), places);
    if (found) found->id = id_of(*parsed);
    return found;
}

bool is_whole_model(const std::string& path) {
    // "NAME-00001-of-00003.ENDING": its number, and how many there are.
    static const std::regex part(R"((.*)-(\d{5})-of-(\d{5})(\.[a-z]+))");
    std::error_code ec;
    const bool is_folder = fs::is_directory(path, ec);
    const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
    std::vector<std::string> names{fs::path(path).filename().string()};
    if (is_folder) names = names_in(folder);
    for (const std::string& name : names) {
        if (!fs::exists(folder / name, ec)) return false;  // a link to nothing
        std::smatch parts;
        if (!std::regex_match(name, parts, part)) continue;
        const int count = std::atoi(parts[3].str().c_str());
        for (int i = 1; i <= count; ++i) {
            std::string number = std::to_string(i);
            number.insert(0, 5 - std::min<std::size_t>(5, number.size()), '0');
            const std::string other =
                parts[1].str() + "-" + number + "-of-" + parts[3].str() + parts[4].str();
            if (!fs::exists(folder / other, ec)) return false;
        }
    }
    return !names.empty();
}

result<found_model> find_or_fetch_hub_model(std::string_view name, const model_places& places,
                                            const hub_settings& settings, const hub_limits& limits,
                                            const hub_report& report, const std::stop_token& stop) {
    const auto parsed = parse_name(name);
    if (!parsed) return parsed.error();
    auto found = find_hub_model(name, places);
    if (found && is_whole_model(found->path)) return found;
    return fetch_hub_model(name, places, settings, limits, report, stop);
}

std::string hub_rate::text(const storage::hub_progress& now) {
    const auto at = std::chrono::steady_clock::now();
    if (!has_begun_) {
        has_begun_ = true;
        begin_ = at;
        first_bytes_ = now.done_bytes;
    }
    const double seconds = std::chrono::duration<double>(at - begin_).count();
    const auto came = static_cast<double>(now.done_bytes - std::min(first_bytes_, now.done_bytes));
    std::string out = amount(now.done_bytes) + " of " + amount(now.all_bytes);
    if (seconds < 1 || came <= 0) return out;
    const double rate = came / seconds;
    const auto left = static_cast<long>(static_cast<double>(now.all_bytes - now.done_bytes) / rate);
    out += ", " + amount(static_cast<std::uint64_t>(rate)) + "/s, ";
    if (left >= 3600) out += std::to_string(left / 3600) + " h ";
    if (left >= 60) out += std::to_string(left / 60 % 60) + " min ";
    return out + std::to_string(left % 60) + " s left";
}

}  // namespace semantic::server

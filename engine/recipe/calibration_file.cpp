// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/calibration_file.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>

#include "engine/model/heads/key_means.hpp"
#include "storage/files/checksum.hpp"
#include "storage/files/strict_json.hpp"

namespace semantic::engine {

namespace json = boost::json;

namespace {

// Bounds of what is read; a larger file or number is damaged.
constexpr std::uint64_t bytes_max = 64 << 20;
constexpr std::int64_t positions_max = 1 << 20;
constexpr const char* format_name = "semantic-calibration";

bool is_share(float value) { return value >= 0.0f && value <= 1.0f; }

/// The score of one entry of the file; nothing if it is invalid.
std::optional<recipe_score> score_of(const json::value& value) {
    const json::object* fields = value.if_object();
    if (fields == nullptr) return std::nullopt;
    const auto number = [fields](const char* key) {
        const json::value* found = fields->if_contains(key);
        return found != nullptr && found->is_number()
                   ? static_cast<float>(found->to_number<double>())
                   : std::nanf("");  // fails every check below
    };
    const json::value* name = fields->if_contains("recipe");
    if (name == nullptr || !name->is_string()) return std::nullopt;
    const json::value* positions = fields->if_contains("positions");
    const std::int64_t* compared = positions == nullptr ? nullptr : positions->if_int64();
    if (compared == nullptr || *compared < 0 || *compared > positions_max) return std::nullopt;
    recipe_score score{std::string(name->get_string()), number("bytes_share"),
                       number("divergence_mean"), number("same_top_share"),
                       static_cast<int>(*compared)};
    if (!is_share(score.bytes_share) || !is_share(score.same_top_share) ||
        !(score.divergence_mean >= 0.0f) || !std::isfinite(score.divergence_mean))
        return std::nullopt;
    return score;
}

/// The means in the file; nothing unless they are as many finite numbers as the model's geometry
/// needs.
std::optional<std::vector<float>> means_of(const json::value* list, const model_config& config) {
    if (list == nullptr || !list->is_array()) return std::nullopt;
    std::vector<float> means;
    for (const json::value& each : list->get_array()) {
        if (!each.is_number()) return std::nullopt;
        means.push_back(static_cast<float>(each.to_number<double>()));
        if (!std::isfinite(means.back())) return std::nullopt;
    }
    if (means.size() != (config.latent.rank > 0 ? 0 : key_means::count(config)))
        return std::nullopt;
    return means;
}

/// The numbers as f16, two bytes each, the lower byte first. They have that precision already
/// (query_moments::write_feedback()), so they read back exactly.
std::string halves_of(std::span<const float> numbers) {
    std::string bytes;
    bytes.reserve(2 * numbers.size());
    for (const float number : numbers) {
        const auto bits = std::bit_cast<std::uint16_t>(to_half(number));
        bytes += static_cast<char>(bits & 255);
        bytes += static_cast<char>(bits >> 8);
    }
    return bytes;
}

/// The numbers that halves_of() wrote; nothing unless they are as many finite ones as the model's
/// geometry needs.
std::optional<std::vector<float>> feedback_of(std::string_view bytes, const model_config& config) {
    const std::size_t wanted = config.latent.rank > 0 ? 0 : key_shaping::count(config);
    if (bytes.size() != 2 * wanted) return std::nullopt;
    std::vector<float> numbers;
    numbers.reserve(wanted);
    for (std::size_t at = 0; at < bytes.size(); at += 2) {
        const auto low = static_cast<unsigned char>(bytes[at]);
        const auto high = static_cast<unsigned char>(bytes[at + 1]);
        const auto bits = static_cast<std::uint16_t>(low | high << 8);
        numbers.push_back(to_float(std::bit_cast<half>(bits)));
        if (!std::isfinite(numbers.back())) return std::nullopt;
    }
    return numbers;
}

/// Whether the scores are those of the model's candidate recipes, in their order.
bool are_candidates(const std::vector<recipe_score>& scores, const model_config& config,
                    int block_tokens) {
    return std::ranges::equal(scores, candidate_recipes(config, block_tokens), {},
                              &recipe_score::name, &storage::named_kv_recipe::name);
}

/// A checksum of all numbers of the result: a changed digit would change how every key is stored.
std::string sum_of(const calibration& result) {
    storage::field_hasher hasher;
    for (const recipe_score& each : result.scores) {
        const float numbers[] = {each.bytes_share, each.divergence_mean, each.same_top_share};
        hasher.add(each.name).add(std::as_bytes(std::span(numbers)));
        hasher.add(std::to_string(each.positions));
    }
    hasher.add(std::as_bytes(std::span(result.keys.means)));
    return hasher.add(std::as_bytes(std::span(result.keys.feedback))).finish().hex();
}

}  // namespace

std::string calibration_path(const std::string& cache_directory,
                             const storage::block_hash& weights) {
    return cache_directory + "/calibration/" + weights.hex() + ".calibration";
}

std::optional<calibration> read_calibration(storage::file_system& files, const std::string& path,
                                            const model_config& config, int block_tokens) {
    const auto text = storage::read_whole(files, path, bytes_max);
    if (!text) return std::nullopt;
    // The file is a line of JSON, then the bytes of halves_of().
    const std::size_t line_end = text->find('\n');
    if (line_end == text->npos) return std::nullopt;
    const std::string_view whole(*text);
    const auto root = storage::parse_strict_json(whole.substr(0, line_end));
    if (!root || !root->is_object()) return std::nullopt;
    const json::object& file = root->get_object();
    const auto is = [&file](const char* key, const json::value& wanted) {
        const json::value* found = file.if_contains(key);
        return found != nullptr && *found == wanted;
    };
    if (!is("format", format_name) || !is("version", calibration_version)) return std::nullopt;
    const json::value* list = file.if_contains("scores");
    if (list == nullptr || !list->is_array()) return std::nullopt;
    calibration result;
    for (const json::value& each : list->get_array()) {
        auto score = score_of(each);
        if (!score) return std::nullopt;
        result.scores.push_back(std::move(*score));
    }
    auto means = means_of(file.if_contains("key_means"), config);
    auto feedback = feedback_of(whole.substr(line_end + 1), config);
    if (!means || !feedback || !are_candidates(result.scores, config, block_tokens))
        return std::nullopt;
    result.keys = {std::move(*means), std::move(*feedback)};
    if (!is("sum", json::string(sum_of(result)))) return std::nullopt;
    return result;
}

storage::result<void> write_calibration(storage::file_system& files, const std::string& path,
                                        const calibration& result) {
    json::array list;
    for (const recipe_score& each : result.scores)
        list.push_back(json::object{{"recipe", each.name},
                                    {"bytes_share", each.bytes_share},
                                    {"divergence_mean", each.divergence_mean},
                                    {"same_top_share", each.same_top_share},
                                    {"positions", each.positions}});
    const json::object file{
        {"format", format_name},
        {"version", calibration_version},
        {"sum", sum_of(result)},
        {"scores", std::move(list)},
        {"key_means", json::array(result.keys.means.begin(), result.keys.means.end())}};
    const std::string directory = std::filesystem::path(path).parent_path();
    if (auto made = files.make_directory(directory); !made) return made;
    return storage::replace_file(files, path,
                                 json::serialize(file) + "\n" + halves_of(result.keys.feedback));
}

}  // namespace semantic::engine

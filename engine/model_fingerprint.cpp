// SPDX-License-Identifier: Apache-2.0
#include "engine/model_fingerprint.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/fingerprint.hpp"
#include "storage/disk/block_file.hpp"
#include "storage/disk/state_file.hpp"
#include "storage/files/checksum.hpp"

namespace semantic::engine {

namespace {

// Part of the fingerprint: raise it when the same weights and tokens would give another KV.
constexpr std::string_view kv_format_version = "5";

/// Returns: the file's bytes; none if there is no such file (a GGUF has neither of those below).
std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A text that differs between recipes whose stored bytes mean different numbers. Uniform recipes
/// keep the text of an older format, so that caches stay valid.
std::string identity_of(const storage::kv_recipe& recipe) {
    if (recipe.uniform() && !recipe.k.rotated)
        return "mlx-affine bits=" + std::to_string(recipe.k.bits);
    return "recipe=" + std::string(storage::name_of(recipe));
}

}  // namespace

/// The hash of all that a memory's bytes depend on: weights, config, tokenizer, template, recipe
/// and formats. Memories of another fingerprint are not used.
storage::block_hash fingerprint_of(const engine_options& options, const chat_template& chat,
                                   const transformer& model, const model_config& config_read,
                                   const storage::kv_layout& layout, const key_statistics& keys) {
    std::string weights = model.weights_hash().hex();
    std::string config = read_file(std::filesystem::path(options.model_directory) / "config.json");
    std::string words =
        read_file(std::filesystem::path(options.model_directory) / "tokenizer.json");
    words += options.tokenizer_pre;  // all else of a GGUF's tokenizer is in the hash of its files
    std::string recipe = identity_of(layout.recipe()) +
                         " group=" + std::to_string(layout.recipe().group_size) +
                         " block=" + std::to_string(layout.block_tokens()) +
                         " files=" + std::to_string(storage::block_format_version);
    if (layout.has_states())
        recipe += " " + config_read.state_identity() +
                  " state_files=" + std::to_string(storage::state_format_version);
    const auto add = [&recipe](const char* label, std::span<const float> numbers) {
        if (numbers.empty()) return;
        storage::field_hasher sum;
        recipe += label + sum.add(std::as_bytes(numbers)).finish().hex();
    };
    add(" means=", keys.means);
    add(" feedback=", keys.feedback);
    if (const std::string rope = config_read.rope_identity(); !rope.empty()) recipe += " " + rope;
    std::string chat_rules = chat.identity();
    return fingerprint({kv_format_version, weights, config, words, chat_rules, recipe});
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/recipe_choice.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/recipe/calibration_file.hpp"
#include "storage/files/file.hpp"

namespace semantic::engine {

namespace {

// Runs calibrate() in the compute arena.
storage::result<calibration> measure(const transformer& model, const model_config& config,
                                     const tokenizer& words, compute_arena& arena, int block_tokens,
                                     const std::function<void(double)>& progress) {
    // Every table of kernels measures the same; slow ones would take a minute or more.
    const kernel_table& fastest = *find_kernels("auto");
    std::unique_ptr<transformer> fast;
    if (model.kernels().name != fastest.name) {
        const auto plain = make_kv_layout(config, storage::kv_recipe(16), block_tokens);
        auto made = model.with_layout(plain, {1, 1}, {}, &fastest);
        if (!made) return made.error();
        fast = std::move(*made);
    }
    const transformer& measured = fast ? *fast : model;
    storage::result<calibration> result = calibration{};
    arena.run([&] { result = calibrate(measured, config, words, progress, block_tokens); });
    return result;
}

// The calibration in the cache directory; measured, and written there, if there is none.
storage::result<calibration> remembered(const transformer& model, const model_config& config,
                                        const tokenizer& words, compute_arena& arena,
                                        const calibration_memory& memory,
                                        const std::function<void(double)>& progress) {
    const int block_tokens = memory.block_tokens;
    if (memory.cache_directory.empty())
        return measure(model, config, words, arena, block_tokens, progress);
    storage::file_system& files = storage::posix_file_system();
    const std::string path = calibration_path(memory.cache_directory, model.weights_hash());
    if (auto kept = read_calibration(files, path, config, block_tokens)) return std::move(*kept);
    auto result = measure(model, config, words, arena, block_tokens, progress);
    if (!result) return result;
    const auto written = write_calibration(files, path, *result);
    if (!written && memory.on_warning)
        memory.on_warning("the measurement of KV recipes is not kept: " + written.error().what);
    return result;
}

}  // namespace

storage::result<chosen_recipe> choose_for(std::optional<storage::kv_recipe> named,
                                          const transformer& model, const model_config& config,
                                          const tokenizer& words, compute_arena& arena,
                                          const calibration_memory& memory,
                                          const std::function<void(double)>& progress) {
    if (named && !named->k.centred) return chosen_recipe{*named, {}, {}};
    auto result = remembered(model, config, words, arena, memory, progress);
    if (!result) return result.error();
    const recipe_score& best = choose_recipe(result->scores, recipe_bound());
    chosen_recipe chosen{named ? *named : *storage::find_kv_recipe(best.name), {}, {}};
    if (!named) chosen.why = describe(best);
    if (chosen.recipe.k.centred) chosen.keys.means = std::move(result->keys.means);
    if (chosen.recipe.k.shaped) chosen.keys.feedback = std::move(result->keys.feedback);
    return chosen;
}

}  // namespace semantic::engine

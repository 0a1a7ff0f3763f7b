// SPDX-License-Identifier: Apache-2.0
#pragma once
// The recipe that a model starts with: the one that somebody names, or the measured one.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/compute_arena.hpp"
#include "engine/recipe/calibration.hpp"

namespace semantic::engine {

struct chosen_recipe {
    storage::kv_recipe recipe;
    std::string why;      // what was measured, as describe(); empty for a named recipe
    key_statistics keys;  // what of calibration::keys the recipe needs
};

/// Where a calibration is kept; an empty directory: nowhere.
struct calibration_memory {
    std::string cache_directory;
    std::function<void(std::string)> on_warning;  // it could not be kept; may be empty
    int block_tokens = usual_block_tokens;        // of the pool that the recipe is for
};

/// Blocks. Takes the calibration that is kept, or makes one and keeps it; where `named` needs none,
/// none is made. Errors: those of calibrate().
storage::result<chosen_recipe> choose_for(std::optional<storage::kv_recipe> named,
                                          const transformer& model, const model_config& config,
                                          const tokenizer& words, compute_arena& arena,
                                          const calibration_memory& memory,
                                          const std::function<void(double)>& progress);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the KV recipe that a model starts with: the one that the options name, or the measured
// one.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/compute_arena.hpp"
#include "engine/recipe/calibration.hpp"

namespace semantic::engine {

struct chosen_recipe {
    storage::kv_recipe recipe;
    std::string why;      // the measurement, as describe(); empty for a named recipe
    key_statistics keys;  // the parts of calibration::keys that the recipe needs
};

/// Where the result of a calibration is kept; an empty directory: nowhere.
struct calibration_memory {
    std::string cache_directory;
    std::function<void(std::string)> on_warning;  // gets why it could not be kept; may be empty
    int block_tokens = usual_block_tokens;        // of the pool that the recipe is for
};

/// Blocks. Reads the kept calibration, or measures and keeps one. Measures nothing if `named` is
/// set and needs no statistics of keys. Errors: those of calibrate().
storage::result<chosen_recipe> choose_for(std::optional<storage::kv_recipe> named,
                                          const transformer& model, const model_config& config,
                                          const tokenizer& words, compute_arena& arena,
                                          const calibration_memory& memory,
                                          const std::function<void(double)>& progress);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses a model's KV recipe (how keys and values are rounded). The model reads a calibration text
// with K and V of 16 bits and, side by side, with candidate recipes; the smallest recipe whose
// predictions stay within a bound is chosen. Only the weights, the text and the table of recipes
// decide, so every start, machine and number of threads chooses alike.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/transformer.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::engine {

/// Part of a stored result's key: raised when the text or the measurement changes.
constexpr int calibration_version = 10;

/// How much a recipe changes the model's predictions, compared with K and V of 16 bits on the same
/// tokens. Floats, because a stored result must read back exactly, and the JSON parser may be off
/// by the last bit of a double.
struct recipe_score {
    std::string name;
    float bytes_share = 1.0f;      // bytes of K and V, scales included, as a share of 16 bit
    float divergence_mean = 0.0f;  // mean KL(16 bit || recipe) over positions, natural
    float same_top_share = 1.0f;   // share of positions with the same most likely token
    int positions = 0;             // positions compared; 0: the recipe was not measured

    bool is_measured() const noexcept { return positions > 0; }
    /// Standard error of same_top_share.
    double same_top_error() const noexcept;
    bool operator==(const recipe_score&) const = default;
};

/// How much a recipe may change the model's predictions. The bound that counts is the share of
/// positions with the same most likely token ("same top"), but a few hundred positions measure that
/// to a per cent only. The divergence predicts it more closely: over 24,000 tokens of prose a
/// recipe changes about tops_by_divergence * sqrt(divergence on the calibration text) of the tops
/// (perf/README.md, Keys and values). So the divergence is bounded by what that allows, and the
/// measured share only has to agree within its error.
struct recipe_bound {
    float divergence_mean_max = 0.01f;
    float same_top_share_min = 0.97f;

    static constexpr double tops_by_divergence = 0.56;

    /// The largest mean divergence that both bounds allow.
    double divergence_limit() const noexcept;
    /// How many of so many positions may have another top: those of the bound, and two standard
    /// errors.
    double other_tops_limit(int positions) const noexcept;
    /// Whether a recipe was measured and is within the bound.
    bool holds(const recipe_score& score) const noexcept;
};

/// The result of the measurement at a model's first start, which later starts read from a file.
struct calibration {
    std::vector<recipe_score> scores;  // of candidate_recipes(), in their order
    key_statistics keys;               // empty for models with latent attention
    bool operator==(const calibration&) const = default;
};

/// Returns: the score within the bound that has the fewest bytes, of equal bytes the one that
/// diverges less. If none is within the bound: the measured one that diverges least. Requires: at
/// least one score.
const recipe_score& choose_recipe(std::span<const recipe_score> scores, const recipe_bound& bound);

/// The score as text: "41 % of 16 bit, KL 0.0044, 97.8 ± 0.7 % same top" (± one standard error).
std::string describe(const recipe_score& score);

constexpr int usual_block_tokens = 256;

/// The recipes that may be measured for a model with this geometry, 16 bit last; k4v4 only if keys
/// cannot be shaped. If blocks of so many tokens are too small for a wide tail (f16 rows of the
/// latest tokens), the same recipes without one. Requires: a valid config.
std::vector<storage::named_kv_recipe> candidate_recipes(const model_config& config,
                                                        int block_tokens = usual_block_tokens);

/// Blocks; runs inside the compute arena. Measures the statistics of keys and queries on parts of
/// the calibration text, then compares batches of candidates with 16 bit on its beginning, until
/// the choice is certain. `model`: any transformer over the weights. `progress`: gets 0 to 1; may
/// be empty. Errors: pool_exhausted if memory is short; incompatible.
storage::result<calibration> calibrate(const transformer& model, const model_config& config,
                                       const tokenizer& words,
                                       const std::function<void(double)>& progress,
                                       int block_tokens = usual_block_tokens);

}  // namespace semantic::engine

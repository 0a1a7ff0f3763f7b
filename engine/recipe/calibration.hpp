// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses a model's KV recipe: candidates read the calibration text next to 16 bit, and the
// smallest one whose predictions stay within a bound is taken. Nothing but the weights, the text
// and the table of recipes decides, so every start, machine and number of threads chooses alike.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/transformer.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::engine {

/// Part of a stored result's key, with the candidates' names: raised when the text or the way they
/// are measured change.
constexpr int calibration_version = 10;

/// What a recipe costs the model, against K and V of 16 bits on the same tokens. In float, which
/// survives a parser of JSON that is off by the last bit of a double.
struct recipe_score {
    std::string name;
    float bytes_share = 1.0f;      // of the bytes of K and V at 16 bit, scales included
    float divergence_mean = 0.0f;  // KL(16 bit || recipe), natural, over positions
    float same_top_share = 1.0f;   // of positions whose most likely token is the same
    int positions = 0;             // that were compared; 0: it was not measured

    bool is_measured() const noexcept { return positions > 0; }
    /// Standard error of same_top_share, as of a share of so many positions.
    double same_top_error() const noexcept;
    bool operator==(const recipe_score&) const = default;
};

/// What a recipe may cost. The share of same tops is the bound that decides, and a few hundred
/// positions measure it to a per cent only; the divergence measures it more closely. Over 24,000
/// tokens of prose in windows of 8,192 a recipe changes 0.63 * sqrt(its divergence there) of the
/// tops (0.58 to 0.73 on five models, for 1 to 28 % of the tops) and tops_by_divergence * sqrt(its
/// divergence on the calibration text), which is the harder one for most (0.44 to 0.69;
/// perf/README.md, Keys and values). So the divergence is bounded by what that allows, and the
/// share that was seen only has to agree.
struct recipe_bound {
    float divergence_mean_max = 0.01f;
    float same_top_share_min = 0.97f;

    static constexpr double tops_by_divergence = 0.56;

    /// Of the mean divergence: the smaller of what both bounds allow.
    double divergence_limit() const noexcept;
    /// Other tops that so many positions may show: those of the bound and two standard errors.
    double other_tops_limit(int positions) const noexcept;
    bool holds(const recipe_score& score) const noexcept;
};

/// What a model's first start measures, and later ones read.
struct calibration {
    std::vector<recipe_score> scores;  // of candidate_recipes(), in their order
    key_statistics keys;               // none where attention is latent
    bool operator==(const calibration&) const = default;
};

/// Returns: of the scores within the bound the one with the fewest bytes, of equal bytes the one
/// that diverges less; of none, the measured one that diverges least. Requires: at least one score.
const recipe_score& choose_recipe(std::span<const recipe_score> scores, const recipe_bound& bound);

/// "41 % of 16 bit, KL 0.0044, 97.8 ± 0.7 % same top": one standard error.
std::string describe(const recipe_score& score);

constexpr int usual_block_tokens = 256;

/// The recipes that are measured and that the model's geometry allows, 16 bit last; k4v4 only where
/// keys cannot be shaped. Where a wide tail does not fit into the frames of blocks of so many
/// tokens, the same recipes without one. Requires: a valid config.
std::vector<storage::named_kv_recipe> candidate_recipes(const model_config& config,
                                                        int block_tokens = usual_block_tokens);

/// Blocks; runs inside the compute arena. Reads parts of the calibration text for the statistics of
/// keys and queries, and its beginning by 16 bit and by batches of candidates (next_batch), until
/// the choice is made (recipe_comparison). `model`: any over the weights. `progress`: gets 0 to 1;
/// may be empty. Errors: pool_exhausted where memory is short, incompatible.
storage::result<calibration> calibrate(const transformer& model, const model_config& config,
                                       const tokenizer& words,
                                       const std::function<void(double)>& progress,
                                       int block_tokens = usual_block_tokens);

}  // namespace semantic::engine

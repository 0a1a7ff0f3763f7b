#pragma once
// Which KV recipe a model gets: each candidate reads the calibration text beside 16 bit, and the
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

/// Part of what a stored result is known by, beside the candidates' names: raised when the text or
/// the way they are measured change.
constexpr int calibration_version = 2;

/// What a recipe costs the model, against K and V of 16 bits on the same tokens. In float, which
/// survives a parser of JSON that is off by the last bit of a double.
struct recipe_score {
    std::string name;
    float bytes_share = 1.0f;      // of the bytes of K and V at 16 bit, scales included
    float divergence_mean = 0.0f;  // KL(16 bit || recipe), natural, over positions
    float same_top_share = 1.0f;   // of positions whose most likely token is the same
    bool operator==(const recipe_score&) const = default;
};

struct recipe_bound {
    float divergence_mean_max = 0.01f;
    float same_top_share_min = 0.97f;
    bool holds(const recipe_score& score) const noexcept {
        return score.divergence_mean <= divergence_mean_max &&
               score.same_top_share >= same_top_share_min;
    }
};

/// What a model's first start measures, and later ones read.
struct calibration {
    std::vector<recipe_score> scores;  // of candidate_recipes(), in their order
    /// Of keys before rope, [layers, kv_heads, head_dim]; none where attention is latent.
    std::vector<float> key_means;
    bool operator==(const calibration&) const = default;
};

/// Returns: the score with the fewest bytes that is within the bound, the first of equals; of none,
/// the one that diverges least. Requires: at least one score.
const recipe_score& choose_recipe(std::span<const recipe_score> scores, const recipe_bound& bound);

/// "41 % of 16 bit, KL 0.0044, 97.8 % same top".
std::string describe(const recipe_score& score);

/// The recipes that are measured and that the model's geometry allows, 16 bit last. Requires: a
/// valid config.
std::vector<storage::named_kv_recipe> candidate_recipes(const model_config& config);

/// Blocks; runs inside the compute arena. Reads the calibration text twice: for the means of the
/// keys, and then with every candidate side by side, activations compensated
/// (transformer_limits::compensated), so that nothing is compared but what K and V are stored as.
/// A candidate that is far outside the bound is given up early and scored on what it has read.
/// `model`: any over the weights. `progress`: gets 0 to 1; may be empty. Errors: pool_exhausted
/// where memory is short, incompatible.
storage::result<calibration> calibrate(const transformer& model, const model_config& config,
                                       const tokenizer& words,
                                       const std::function<void(double)>& progress);

}  // namespace semantic::engine

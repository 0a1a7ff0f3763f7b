// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lets the model read a text with the reference recipe (16 bit) and, side by side, with candidate
// recipes, and compares the predictions. So that only the storage of K and V makes a difference,
// and not the 8-bit rounding of activations, candidates replay the reference's matrix products
// (product_tape); with a mixture of experts all runs compensate that rounding. Owner: a
// calibration. Thread: one, inside the compute arena.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/kernels/task_runner.hpp"
#include "engine/model/transformer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "engine/model/weights/product_tape.hpp"
#include "engine/recipe/calibration.hpp"
#include "engine/recipe/prediction_scores.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::engine {

/// K and V of 16 bits.
const storage::named_kv_recipe& reference_recipe();
/// Bytes of K and V by `recipe`, as a share of those by the reference recipe.
float bytes_share(const model_config& config, const storage::kv_recipe& recipe);

/// The model with one recipe, and how far it has read the text. The constructor and read() throw
/// std::runtime_error if the model refuses the recipe or memory is short.
class recipe_reader {
  public:
    recipe_reader(const transformer& model, const model_config& config,
                  const storage::named_kv_recipe& recipe, const key_statistics& keys, int tokens,
                  transformer_limits limits);

    /// Reads `tokens` after those read before. `wanted`: ascending indices of those whose logits
    /// are written to `logits` [wanted, vocabulary].
    void read(std::span<const storage::token_id> tokens, std::span<const int> wanted,
              float* logits);
    /// Begins a read() that is run layer by layer, as transformer::begin() and run_layer(). The
    /// arguments of begin() must stay valid until the last layer has run.
    void begin(std::span<const storage::token_id> tokens, std::span<const int> wanted,
               float* logits);
    void run_layer(int layer);
    transformer& model() noexcept { return *model_; }
    score_sum& scores() noexcept { return scores_; }
    float share() const noexcept { return share_; }

  private:
    float share_;  // bytes_share() of its recipe
    storage::block_pool pool_;
    storage::kv_sequence sequence_;
    const int layers_;
    aligned_buffer<std::byte> states_[2];  // sequence_step::state and next_state
    std::unique_ptr<transformer> model_;
    sequence_step step_;  // from begin() to the last layer
    score_sum scores_;
};

class recipe_comparison {
  public:
    /// All arguments but `bound` must outlive this. `tokens`: at least 24; the last one is only
    /// predicted, not read. `keys`: as transformer::with_layout() gets them.
    recipe_comparison(const transformer& model, const model_config& config,
                      const key_statistics& keys, std::span<const storage::token_id> tokens,
                      const recipe_bound& bound);

    /// Returns: the scores of `candidates`, in their order. To save time not every candidate reads
    /// all of the text; its score is then that of what it has read. A candidate stops when it
    /// cannot come within the bound any more, when it is far outside, when it is surely within, or
    /// when a smaller one is. Candidates of the smallest size begin; larger ones join when none of
    /// these is within the bound. Requires: at least one candidate.
    std::vector<recipe_score> run(std::span<const storage::named_kv_recipe> candidates,
                                  const std::function<void(double)>& progress);
    /// Positions whose predictions are compared.
    int positions() const;

  private:
    /// A reader at the start of the text, which shares the tape if products can be replayed.
    std::unique_ptr<recipe_reader> open(const storage::named_kv_recipe& recipe);
    /// Opens the candidates of the smallest size; the others wait.
    void begin_smallest();
    bool is_any_open() const;
    /// Whether the waiting candidates have to begin. `end`: tokens that the others have read.
    bool is_time_to_join(int end) const;
    void join_waiting(int end);
    /// Reads the tokens [begin, end) with the reference and the candidates `readers`, and scores
    /// them.
    void read_piece(int begin, int end, std::span<const std::size_t> readers);
    void score_piece(std::size_t candidate, int first, std::size_t rows);
    void settle();
    /// Whether a candidate with these scores is within the bound with near certainty.
    bool is_sure(const score_sum& scores) const;
    /// Whether a candidate with these scores cannot, or is most unlikely to, come within the bound.
    bool is_given_up(const score_sum& scores) const;
    /// Calls `body` for each row of logits, on the arena's threads.
    void for_rows(std::size_t rows, const std::function<void(std::size_t)>& body);
    std::span<const float> row_of(const std::vector<float>& logits, std::size_t row) const;

    const transformer& model_;
    const model_config& config_;
    const key_statistics& keys_;
    std::span<const storage::token_id> tokens_;
    recipe_bound bound_;
    transformer_limits limits_;
    std::size_t vocabulary_;
    int scored_from_;  // position of the first prediction that is compared
    task_runner tasks_;
    product_tape tape_;
    std::unique_ptr<recipe_reader> reference_;
    std::span<const storage::named_kv_recipe> candidates_;  // as given to run()
    std::vector<std::unique_ptr<recipe_reader>> open_;  // by candidate; null: waits, or has stopped
    std::vector<std::size_t> begun_, waiting_;          // indices of candidates
    std::vector<recipe_score> scores_;                  // by candidate
    // Bytes share of the smallest candidate that is surely within the bound; infinity: none is.
    float sure_share_ = 0.0f;
    std::vector<float> reference_logits_, logits_;  // [rows_max, vocabulary]
    std::vector<prediction> predictions_;           // [rows_max], of the reference
};

}  // namespace semantic::engine

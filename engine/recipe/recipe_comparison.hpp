// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a text by the reference recipe and by candidates side by side and compares what they
// predict. The candidates replay the reference's products (product_tape), or with a mixture of
// experts all are compensated, so that nothing is compared but what K and V are stored as.
// Owner: a calibration. Thread: one, inside the compute arena.

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
/// Of the bytes of K and V by the reference.
float bytes_share(const model_config& config, const storage::kv_recipe& recipe);

/// One recipe on its way through a text. Throws std::runtime_error where the model refuses it.
class recipe_reader {
  public:
    recipe_reader(const transformer& model, const model_config& config,
                  const storage::named_kv_recipe& recipe, const key_statistics& keys, int tokens,
                  transformer_limits limits);

    /// Appends `tokens`. Shape: logits [wanted, vocabulary], of the ascending indices `wanted`.
    void read(std::span<const storage::token_id> tokens, std::span<const int> wanted,
              float* logits);
    /// The same in parts, as transformer::begin() and run_layer(); what they are given outlives the
    /// last layer.
    void begin(std::span<const storage::token_id> tokens, std::span<const int> wanted,
               float* logits);
    void run_layer(int layer);
    transformer& model() noexcept { return *model_; }
    score_sum& scores() noexcept { return scores_; }
    float share() const noexcept { return share_; }

  private:
    float share_;
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
    /// `keys` and `tokens` [at least 24] outlive it; the last one is only predicted. `keys`: as
    /// transformer::with_layout() gets them.
    recipe_comparison(const transformer& model, const model_config& config,
                      const key_statistics& keys, std::span<const storage::token_id> tokens,
                      const recipe_bound& bound);

    /// Returns: the scores of `candidates`, in their order. A candidate that can no longer come
    /// into the bound, or is far outside, is given up and scored on what it has read; so is one
    /// that is surely within, and what is larger than that. Candidates of the smallest size begin;
    /// the larger ones join once none of these is within the bound, and are not measured while one
    /// is. Requires: at least one candidate.
    std::vector<recipe_score> run(std::span<const storage::named_kv_recipe> candidates,
                                  const std::function<void(double)>& progress);
    /// Positions whose predictions are compared.
    int positions() const;

  private:
    std::unique_ptr<recipe_reader> open(const storage::named_kv_recipe& recipe);
    void begin_smallest();
    bool is_any_open() const;
    bool is_time_to_join(int end) const;
    void join_waiting(int end);
    void read_piece(int begin, int end, std::span<const std::size_t> readers);
    void score_piece(std::size_t candidate, int first, std::size_t rows);
    void settle();
    bool is_sure(const score_sum& scores) const;
    bool is_given_up(const score_sum& scores) const;
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
    std::span<const storage::named_kv_recipe> candidates_;
    std::vector<std::unique_ptr<recipe_reader>> open_;  // null: waiting, or given up
    std::vector<std::size_t> begun_, waiting_;          // candidates
    std::vector<recipe_score> scores_;
    // Of the smallest candidate that is surely within the bound; infinity: of none.
    float sure_share_ = 0.0f;
    std::vector<float> reference_logits_, logits_;  // [rows_max, vocabulary]
    std::vector<prediction> predictions_;           // [rows_max], the reference's
};

}  // namespace semantic::engine

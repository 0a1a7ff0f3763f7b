// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model that commands use without a server: for one sequence that is read in chunks, or for steps
// of several. Owner: a command. Thread: one.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/compute_arena.hpp"
#include "engine/model/transformer.hpp"
#include "engine/recipe/calibration.hpp"
#include "server/eval/offline_sequence.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::eval {

struct offline_options {
    std::string directory;
    std::string kernels = "auto";
    int threads = 0;
    std::string kv = "default";  // a recipe's name; default: what the server takes
    int chunk_tokens = 512;
    int tokens_max = 0;               // of one sequence; decides the size of the pool
    std::string weights = "native";   // or q8, q4: what matrices are quantised to
    bool compensated = false;         // transformer_limits::compensated
    std::string tokenizer_pre = {};   // engine_options::tokenizer_pre, where kv is "default"
    int sequences = 1;                // of tokens_max tokens each, for which the pool has room
    std::size_t memory_limit_mb = 0;  // of the process; 0: the machine's, and its group's
};

class offline_model {
  public:
    /// Loads the model. Throws bad_input with one sentence where it cannot; where the memory does
    /// not suffice, before weights are read. Blocks.
    explicit offline_model(const offline_options& options);
    /// A model with the same weights that keeps K and V as `kv` says. `threads`: its own threads;
    /// 0: those of `other`. Throws bad_input.
    offline_model(const offline_model& other, const std::string& kv, int threads = 0);

    const engine::model_config& config() const noexcept { return config_; }
    const char* kernels() const noexcept { return kernels_->name; }
    int threads() const noexcept { return arena_->threads(); }
    int chunk_tokens() const noexcept { return options_.chunk_tokens; }
    const storage::kv_layout& layout() const noexcept { return pool_->layout(); }
    storage::block_pool& pool() noexcept { return *pool_; }
    /// The name of the KV recipe.
    std::string kv() const { return std::string(storage::name_of(layout().recipe())); }
    /// Runs `body` on the model's threads.
    void compute(const std::function<void()>& body) { arena_->run(body); }

    /// What each recipe costs the model. Throws bad_input.
    const std::vector<engine::recipe_score>& measure_recipes() { return calibrate(*model_).scores; }

    /// A new, empty sequence.
    std::unique_ptr<offline_sequence> start() const;
    /// Appends `ids` to the sequence, in chunks. `wanted`: ascending indices into `ids`.
    /// `on_progress`: gets the number of ids that are done. Returns: the logits at `wanted`, as
    /// [wanted, vocabulary]. Throws bad_input.
    std::vector<float> run(offline_sequence& sequence, std::span<const storage::token_id> ids,
                           std::span<const int> wanted,
                           const std::function<void(std::size_t)>& on_progress = {});
    /// Appends to several sequences at once. Requires: ids inside the vocabulary, no more than
    /// chunk_tokens() in all.
    void step(std::span<engine::sequence_step> batch);
    /// Greedy tokens after `prompt`, at most `max_new`, ending after the first one of `stops`.
    std::vector<storage::token_id> greedy(std::span<const storage::token_id> prompt, int max_new,
                                          std::span<const storage::token_id> stops = {});

  private:
    /// Throws bad_input, with the server's memory plan, where weights, scratch and pool do not fit.
    /// Runs before weights are read.
    void check_memory() const;
    /// The frames of a pool for the options' sequences.
    std::size_t frames(const storage::kv_layout& layout) const;
    /// Makes model_ and its pool for the recipe in options_.kv, with the weights of `weights`.
    /// Measures the recipe where none is named.
    void take_recipe(const engine::transformer& weights);
    // Measures what each recipe costs; once for all models with the same weights.
    const engine::calibration& calibrate(const engine::transformer& weights);

    offline_options options_;
    engine::model_config config_;
    const engine::kernel_table* kernels_;
    std::shared_ptr<engine::compute_arena> arena_;
    std::unique_ptr<storage::block_pool> pool_;
    std::unique_ptr<engine::transformer> model_;
    // Null inside until it was measured; one for all models over the same weights.
    std::shared_ptr<std::unique_ptr<const engine::calibration>> calibration_;
};

}  // namespace semantic::eval

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model on disk with a pool of its own, and the few ways in which tests run tokens through it.

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/compute_arena.hpp"
#include "engine/model/transformer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::tests {

struct model_run {
    std::string folder;          // of config.json
    std::string weights_folder;  // empty: the same
    int kv_bits = 16;            // of K and V alike
    int threads = 1;
    std::string kernels = "auto";
    int rows_max = 512;
    int pool_tokens = 1024;
    engine::weight_form weights = engine::weight_form::native;
    int block_tokens = 256;
    std::string recipe = {};   // by name, in place of kv_bits; key means are made up
    int wide_tail = 0;         // of it, where its name has none
    int context_tokens = 0;    // model_config::choose_rope(); 0: as long as the model says
    bool compensated = false;  // as transformer_limits
    int draft_rows_max = 0;    // likewise
};

class loaded_model {
  public:
    /// Fails the test and leaves the model null when loading does not succeed.
    explicit loaded_model(const model_run& run);
    ~loaded_model();

    explicit operator bool() const { return model_ != nullptr; }
    const engine::model_config& config() const { return config_; }
    engine::transformer& model() { return *model_; }
    storage::block_pool& pool() { return *pool_; }
    std::unique_ptr<storage::kv_sequence> new_sequence() const;
    /// A second sequence that shares everything `from` has.
    std::unique_ptr<storage::kv_sequence> fork(storage::kv_sequence& from) const;
    /// What recurrent layers know of all tokens of a sequence that new_sequence() or fork() made.
    std::span<const std::byte> state(const storage::kv_sequence& sequence) const {
        const auto& held = states_.at(&sequence)[0];
        return {held.data(), held.count()};
    }

    /// Appends `tokens` in chunks of `chunk`. Returns: the logits of every one. Shape: [tokens,
    /// vocabulary].
    std::vector<float> logits(storage::kv_sequence& sequence,
                              std::span<const storage::token_id> tokens, int chunk);
    /// One step for several sequences at once; every token's logits, sequence after sequence.
    std::vector<float> step(std::span<storage::kv_sequence* const> sequences,
                            std::span<const std::vector<storage::token_id>> tokens);
    /// Greedy tokens after `prompt`.
    std::vector<storage::token_id> greedy(std::span<const storage::token_id> prompt, int count);

  private:
    model_run run_;
    engine::compute_arena arena_;
    engine::model_config config_;
    std::unique_ptr<storage::block_pool> pool_;
    std::unique_ptr<engine::transformer> model_;
    // Of each sequence the state after its tokens, and the one that a step writes.
    using state_pair = std::array<engine::aligned_buffer<std::byte>, 2>;
    state_pair new_states() const;
    mutable std::map<const storage::kv_sequence*, state_pair> states_;
};

}  // namespace semantic::tests

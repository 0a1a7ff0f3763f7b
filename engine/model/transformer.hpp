// SPDX-License-Identifier: Apache-2.0
#pragma once
// The forward pass: tokens of several sequences in, logits out, K and V appended to their blocks on
// the way. Owner: the scheduler. Thread: forward() is called by one thread at a time, inside the
// compute arena; it uses the arena's threads. Exactness: the logits of a position depend on its
// tokens, the recipe and the CPU only, never on chunking, batch mates or threads.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/key_shaping.hpp"
#include "engine/model/packed/weight_loading.hpp"
#include "engine/model/pass/sequence_step.hpp"
#include "engine/types/load_progress.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

struct transformer_limits {
    int rows_max = 0;        // tokens of one step, over all sequences
    int logit_rows_max = 0;  // logits of one step, over all sequences
    /// What 8 bits lose of activations is multiplied too, in every product: twice the work. Without
    /// it two runs that differ in the last bit of one key soon differ by that rounding, which hides
    /// what is measured.
    bool compensated = false;
    int draft_rows_max = 0;  // rows of one step of sequences with drafts, over all of them
};

class product_tape;

class transformer {
  public:
    /// Blocks. As model_weights::load(), in parallel, never twice in memory. Sizes all
    /// scratch; forward() allocates nothing. Errors: not_found, corrupt, incompatible; each names
    /// the file, tensor, shape or type at fault.
    static storage::result<std::unique_ptr<transformer>> load(
        const std::string& model, const model_config& config, const storage::kv_layout& layout,
        const kernel_table& kernels, transformer_limits limits, const weight_loading& how,
        const weights_progress& progress);
    /// Over the same weights, which both hold, with K and V kept as `layout` says and scratch of
    /// its own. Errors: incompatible.
    /// `keys`: used where the layout's keys are centred or shaped, which needs them. `kernels`: the
    /// table that computes; null: the same.
    storage::result<std::unique_ptr<transformer>> with_layout(
        const storage::kv_layout& layout, transformer_limits limits,
        const key_statistics& keys = {}, const kernel_table* kernels = nullptr) const;
    ~transformer();

    /// Runs one step; when it returns, every layer was waited for. Requires: sum of tokens <=
    /// rows_max, sum of logits_at <= logit_rows_max, positions inside the context. Throws
    /// layer_not_there.
    void forward(std::span<sequence_step> batch);
    /// The same in parts, so that several models can go through their layers side by side: begin(),
    /// then each layer in ascending order, with one batch; the last one writes the logits.
    void begin(std::span<sequence_step> batch);
    void run_layer(int layer, std::span<sequence_step> batch);

    /// Of sequence `index` of the latest step, which had drafts: makes its next_state the state
    /// after the first `count` of its tokens, exactly as if the step had had no more. Does nothing
    /// where the model has no recurrent layers. Thread: as forward(). Requires: `count` is as many
    /// as were no drafts, or more; the step's state and next_state are still there, and no sequence
    /// of it was empty.
    void rewind(int index, int count);

    /// From now on forward() copies the heads of each row, before rope, to `keys` [layers
    /// that attend, rows_max, kv_heads * head_dim] and `queries` [as many, rows_max, heads *
    /// head_dim]; null: no more. Requires: no latent attention; no logits are asked for while
    /// queries are copied.
    void capture(float* keys, float* queries);
    /// From now on forward() records its products on the tape, or replays them, as the tape says;
    /// null: no more. The tape grows while it records. Requires: no mixture of experts, whose
    /// products are of other rows in every run.
    void use_tape(product_tape* tape);

    const kernel_table& kernels() const noexcept;
    std::uint64_t weight_bytes() const noexcept;
    const weights_origin& origin() const noexcept;  // of the weights
    /// XXH3-128 over every weight file's bytes in name order, for the fingerprint.
    const storage::block_hash& weights_hash() const noexcept;

  private:
    struct impl;
    explicit transformer(std::unique_ptr<impl> state);
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine

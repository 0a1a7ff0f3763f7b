// SPDX-License-Identifier: Apache-2.0
#pragma once
// The forward pass of a model: takes tokens of several sequences, appends their K and V to the
// sequences' blocks, and gives logits. Owner: the scheduler. Thread: forward() is called by one
// thread at a time, inside the compute arena, and uses the arena's threads. Exactness: the logits
// of a position depend on its tokens, the recipe and the CPU only, never on chunks, on other
// sequences in the step, or on threads.

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
    /// Compensates the rounding of activations to 8 bits in every product, which doubles the work.
    /// For measurements: without it two runs that differ in the last bit of one key soon differ by
    /// that rounding.
    bool compensated = false;
    int draft_rows_max = 0;  // rows of all sequences with drafts in one step
};

class product_tape;

class transformer {
  public:
    /// Blocks. Loads the weights (model_weights::load()), in parallel and without a second copy in
    /// memory, and allocates all scratch; forward() allocates nothing. Errors: not_found, corrupt,
    /// incompatible; each names the file, tensor, shape or type at fault.
    static storage::result<std::unique_ptr<transformer>> load(
        const std::string& model, const model_config& config, const storage::kv_layout& layout,
        const kernel_table& kernels, transformer_limits limits, const weight_loading& how,
        const weights_progress& progress);
    /// Returns: another transformer over the same weights, which both share, with the KV layout
    /// `layout` and scratch of its own. `keys`: statistics that layouts with centred or shaped keys
    /// need. `kernels`: null: the same table. Errors: incompatible.
    storage::result<std::unique_ptr<transformer>> with_layout(
        const storage::kv_layout& layout, transformer_limits limits,
        const key_statistics& keys = {}, const kernel_table* kernels = nullptr) const;
    ~transformer();

    /// Runs one step. Requires: at most rows_max tokens and logit_rows_max logits over all
    /// sequences, positions inside the context. Throws: layer_not_there if a layer_gate gives up;
    /// no sequence has changed then.
    void forward(std::span<sequence_step> batch);
    /// Begins a step that is run layer by layer, so that several transformers can go through their
    /// layers side by side: begin(), then run_layer() for each layer in ascending order, with the
    /// same batch. Together they do what forward() does; the last layer writes the logits.
    void begin(std::span<sequence_step> batch);
    void run_layer(int layer, std::span<sequence_step> batch);

    /// For a sequence of the latest step that had drafts (`index` in the batch): changes its
    /// next_state to the state after the first `count` of its tokens, exactly as if the step had
    /// had no more. Does nothing for models without recurrent layers. Thread: as forward().
    /// Requires: `count` includes at least all tokens that were no drafts; the step's state and
    /// next_state are unchanged; no sequence of the step was empty.
    void rewind(int index, int count);

    /// From now on forward() copies each row's keys and queries before rope to `keys` [layers that
    /// attend, rows_max, kv_heads * head_dim] and `queries` [the same layers, rows_max, heads *
    /// head_dim]. Null ends it. Requires: no latent attention; no logits are asked for while
    /// queries are copied.
    void capture(float* keys, float* queries);
    /// From now on forward() records its matrix products on the tape, or replays them, as the
    /// tape's mode says; null ends it. The tape grows while it records. Requires: no mixture of
    /// experts, where each run multiplies other rows.
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

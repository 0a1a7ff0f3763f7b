// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weights of a model, checked against its config and packed for the kernels. Owner:
// transformer. Immutable after load; safe from any thread. Memory: all packed weights are in one
// mapping, of a file (engine/model/packed) or anonymous. Source pages are released as soon as they
// are packed, so that a model is never in memory twice. Tables of which a token needs one row stay
// in the source file (row_table).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/packed/packed_file.hpp"
#include "engine/model/packed/weight_loading.hpp"
#include "engine/model/weights/row_table.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "engine/types/load_progress.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// y = W x + bias; an empty bias adds nothing.
struct linear_weights {
    packed_matrix matrix;
    std::vector<float> bias;  // [matrix.rows] or empty

    void add_bias(const kernel_table& kernels, float* row) const {
        if (!bias.empty()) kernels.add(row, bias.data(), bias.size());
    }
};

/// y = down(act(gate(x)) * up(x)); without a gate y = down(act(up(x))).
struct gated_weights {
    linear_weights gate, up;  // [inner, hidden]
    linear_weights down;      // [hidden, inner]
};

/// The weights of a recurrent mixer, without its norm and its output projection.
struct recurrent_weights {
    /// The projection to the mixer's inputs; its rows, in order. delta_rule: queries, keys, values;
    /// if `gate` is empty these and the gate's, ordered by key head. state_space: gate, values,
    /// keys (B), queries (C), steps. short_convolution: gate before, gate after, input.
    linear_weights inputs;
    linear_weights gate;             // delta_rule: [value_width, hidden], or empty
    linear_weights rates, steps;     // delta_rule: b and a, [value_heads, hidden]; or empty
    linear_weights rates_and_steps;  // delta_rule: both in one, ordered by key head; or empty
    std::vector<float> taps;         // [taps, channels], the oldest column's first
    std::vector<float> taps_bias;    // [channels] or empty
    std::vector<float> decay;        // -exp(A_log), [value_heads]
    std::vector<float> step_bias;    // dt_bias, [value_heads]
    std::vector<float> skip;         // state_space: D, [value_heads]
    std::vector<float> norm;         // delta_rule: [value_dim]; state_space: [value_width]
};

/// The weights of a layer's per-layer embeddings (model_config::layer_input_dim).
struct layer_input_weights {
    linear_weights gate;           // [layer_input_dim, hidden]
    linear_weights projection;     // [hidden, layer_input_dim]
    std::vector<float> post_norm;  // [hidden]
};

/// The norms of experts that run next to an MLP (mixture_config::beside_mlp).
struct mixture_norms {
    std::vector<float> router;         // [hidden], before the router, scaled
    std::vector<float> experts;        // [hidden], before the experts
    std::vector<float> mlp_post;       // [hidden], after the MLP
    std::vector<float> experts_post;   // [hidden], after the experts' sum
    std::vector<float> expert_scales;  // [experts], factors of their weights
};

struct layer_weights {
    /// [hidden], or empty: there is no mixer, or no norm before it.
    std::vector<float> mixer_norm;
    /// [query_width, hidden or query rank]; with gated attention each head's query and then its
    /// gate.
    linear_weights q;
    linear_weights k, v;                // [kv_heads * head_dim, hidden]
    std::vector<float> q_norm, k_norm;  // [head_dim]; joint norms: of all heads; or empty
    linear_weights o;                   // [hidden, width of a mixer's result]
    std::vector<float> mixer_post_norm, mlp_post_norm;  // [hidden] or empty
    std::vector<float> mlp_norm;                        // [hidden] or empty
    std::vector<float> sinks;                           // [heads] or empty
    // Latent attention only, in place of k and v.
    linear_weights q_down;            // [query rank, hidden] or empty
    std::vector<float> q_down_norm;   // [query rank] or empty
    linear_weights kv_down;           // [rank + rope_dim, hidden]
    std::vector<float> kv_down_norm;  // [rank]
    std::vector<packed_matrix> k_up;  // for each head, query to latent: [rank, plain_dim]
    std::vector<packed_matrix> v_up;  // for each head, latent to value: [value_dim, rank]
    recurrent_weights recurrent;      // of recurrent mixers only
    gated_weights mlp;                // of a mixture: the shared experts, or the MLP next to it
    linear_weights router;            // [experts, hidden] or empty
    std::vector<float> choice_bias;   // [experts], added to scores for the choice only; or empty
    linear_weights shared_gate;       // [1, hidden], gate of the shared experts; or empty
    std::vector<gated_weights> experts;
    layer_input_weights input;
    mixture_norms norms;
    float scale = 1.0f;  // factor of the residual stream after the layer
};

/// Anonymous, page-aligned memory, on huge pages if the system has them.
class weight_arena {
  public:
    weight_arena() = default;
    /// Throws std::bad_alloc when the system refuses.
    explicit weight_arena(std::size_t bytes);
    weight_arena(weight_arena&& from) noexcept
        : data_(std::exchange(from.data_, nullptr)), bytes_(std::exchange(from.bytes_, 0)) {}
    weight_arena& operator=(weight_arena&& from) noexcept {
        std::swap(data_, from.data_);
        std::swap(bytes_, from.bytes_);
        return *this;
    }
    ~weight_arena();
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

/// The result of checking a model's files without reading the weights.
struct weight_check {
    std::uint64_t bytes = 0;  // of the packed weights
    /// Tensors of the files that are not used, such as those for pictures, or of layers that
    /// predict further tokens. Sorted.
    std::vector<std::string> left_out;
};

class model_weights {
  public:
    /// Blocks. Reads a folder's safetensors or a GGUF file (weight_files.hpp), and packs the
    /// weights in parallel on the threads of the calling arena. Quantises as `how.form` says,
    /// except for routers and matrices whose inputs are no multiple of 64. With how.packed, weights
    /// that an earlier start has packed are mapped from there; otherwise they are packed now and
    /// kept there. If they cannot be kept, origin() says why, and they are packed into memory.
    /// `progress` may be empty; it is called from any thread of the arena, one call at a time.
    /// Errors: not_found, corrupt, incompatible; each names the file, tensor, shape, type or value
    /// at fault.
    static storage::result<model_weights> load(const std::string& model, const model_config& config,
                                               const kernel_table& kernels,
                                               const weight_loading& how,
                                               const weights_progress& progress);

    /// Blocks. Checks the files' names, shapes and types as load() does, without reading values.
    /// Errors: as load().
    static storage::result<weight_check> check(const std::string& model, const model_config& config,
                                               weight_form form);

    packed_matrix embedding;  // [vocabulary, hidden]
    std::vector<layer_weights> layers;
    std::vector<float> final_norm;  // [hidden]
    packed_matrix head;             // [vocabulary, hidden]; the embedding itself when tied
    // Per-layer embeddings, for models that have them.
    row_table layer_inputs;                 // [vocabulary, layers * layer_input_dim]
    linear_weights layer_input_projection;  // [layers * layer_input_dim, hidden]
    std::vector<float> layer_input_norm;    // [layer_input_dim]

    std::uint64_t bytes() const noexcept { return file_ ? file_->bytes().size() : arena_.bytes(); }
    const weights_origin& origin() const noexcept { return origin_; }
    /// A hash of all weights: XXH3-128 over the XXH3-128 of each file, in the order of their names,
    /// and over the form if loading has quantised a matrix.
    const storage::block_hash& hash() const noexcept { return hash_; }

  private:
    friend class weight_loader;

    weight_arena arena_;                // empty if the weights are mapped from file_
    std::optional<packed_file> file_;   // set if they are
    std::vector<weight_file> sources_;  // kept open for layer_inputs; else empty
    storage::block_hash hash_;
    weights_origin origin_;
};

}  // namespace semantic::engine

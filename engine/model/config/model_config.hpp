// SPDX-License-Identifier: Apache-2.0
#pragma once
// config.json, or the metadata of a GGUF, as a validated struct. What differs between families is
// data here, not code elsewhere. Missing fields take the value that the config classes of
// transformers give them. Immutable after load.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/config/mixer_config.hpp"
#include "engine/types/generation.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

struct rope_parameters {
    enum class scaling { none, linear, llama3, yarn };
    scaling type = scaling::none;
    double theta = 10000.0;
    double factor = 1.0;
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    double original_context = 0.0;
    double beta_fast = 32.0;
    double beta_slow = 1.0;
    bool truncate = true;         // yarn blends between whole dimensions
    double amplitude = 1.0;       // of cosines and sines
    std::vector<float> divisors;  // of each frequency; empty: 1
    /// Those of a context of at most original_context tokens, where they are others: see
    /// model_config::choose_rope().
    std::vector<float> short_divisors;
    double portion = 1.0;  // of a head's elements that rotate, from the first; 0: none
    /// The portion counts pairs: the first pairs of the whole head rotate, the others do not.
    bool proportional = false;
    /// Queries are multiplied by 1 + query_growth * ln(1 + floor(position / original_context)).
    double query_growth = 0.0;
    /// The number of elements of a head that are in pairs, rotated or not.
    int rotated(int head_dim) const {
        return proportional ? head_dim : static_cast<int>(head_dim * portion);
    }
    bool operator==(const rope_parameters&) const = default;
};

/// What is between the two matrices of an MLP. relu_squared has no gate: down(relu(up(x))^2).
enum class activation_kind { silu, gelu_tanh, swiglu_clamped, relu_squared };

/// What a model's matrices are held as once they are loaded: as published, or at most 8 or 4 bits.
enum class weight_form { native, q8, q4 };

/// Returns: the form of that name, or nothing.
std::optional<weight_form> find_weight_form(std::string_view name) noexcept;
const char* to_string(weight_form form) noexcept;  // "native", "q8", "q4"

/// How MLX quantised a matrix: affine in groups of 64 or, as mxfp4, in blocks of 32 without biases.
struct matrix_quantization {
    enum class mode { none, affine, mxfp4 };
    mode how = mode::none;
    int bits = 0;  // affine: 4 or 8; mxfp4: 4
    bool operator==(const matrix_quantization&) const = default;
};

/// Experts of which a router picks some for each token.
struct mixture_config {
    int experts = 0;  // 0: the layers have one MLP
    int per_token = 0;
    int intermediate = 0;           // of one expert
    bool softmax_over_all = false;  // or over the chosen ones
    float scale = 1.0f;             // of the chosen ones' weights
    int groups = 1;                 // neighbouring experts, as many in each
    int groups_per_token = 1;       // whose best expert is best; the others' are not chosen
    int shared_intermediate = 0;    // of the MLP that every token takes; 0: there is none
    bool fused = true;              // one tensor for all experts, and biases; or neither
    /// Weights are the chosen scores' sigmoids instead of a softmax. Experts are chosen by these
    /// plus a bias of each, and a group by the sum of its two best.
    bool sigmoid = false;
    bool normalised = true;     // sigmoid: weights are divided by their sum plus norm_epsilon
    float norm_epsilon = 0.0f;  // of that
    bool shared_gate = false;   // the shared MLP is multiplied by the sigmoid of a row times x
    /// The layer has experts and an MLP of its own. Each of the two has norms of its own, the
    /// router reads the stream itself, and each expert's share has a factor.
    bool beside_mlp = false;
};

/// Multi-head latent attention. Of a token the cache holds one latent vector and one rotated piece
/// of key for all heads. A head's key would be its own expansion of the latent followed by that
/// piece, its value another expansion; instead, its query is carried to the latent and what it
/// attends to is expanded afterwards. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
struct latent_config {
    int rank = 0;        // of the latent; 0: heads have keys and values of their own
    int query_rank = 0;  // of the latent that queries come from; 0: from the stream itself
    int plain_dim = 0;   // of a head's query and key without position
    int rope_dim = 0;    // of their rotated rest; neighbouring elements turn together
    int value_dim = 0;   // of a head's value
    /// The norms of both latents have an epsilon of their own.
    static constexpr float norm_eps = 1e-6f;
    /// In the cache each part fills whole groups of 64; its padding is zero.
    int stored_rank() const { return (rank + 63) / 64 * 64; }
    int stored_rope() const { return (rope_dim + 63) / 64 * 64; }
};

struct layer_config {
    int window = 0;  // 0: full attention
    rope_parameters rope;
    bool mixture = false;  // of experts, or one MLP
    mixer_kind mixer = mixer_kind::attention;
    bool feed_forward = true;  // or none: the layer is its mixer alone
    // 0: the layer has the model's value.
    int kv_heads = 0;
    int head_dim = 0;
    int intermediate = 0;
    int kv_source = -1;             // the layer whose keys and values it reads; -1: its own
    bool values_from_keys = false;  // a value is what k_proj gives, before norm and rope
};

struct model_config {
    std::string family;  // model_type: "llama"
    int hidden = 0;
    int intermediate = 0;
    int heads = 0;
    int kv_heads = 0;  // latent attention: 1
    int head_dim = 0;  // of the widest layer; latent attention: the part that is rotated
    int vocabulary = 0;
    int context_tokens_max = 0;
    float norm_eps = 1e-6f;
    bool tied_head = false;
    bool qkv_bias = false;
    bool o_bias = false;
    bool mlp_bias = false;
    bool qk_norm = false;         // queries and keys are normalised head by head, before rope
    bool joint_qk_norm = false;   // the same of all heads at once
    bool value_norm = false;      // values are normalised head by head, without weights
    bool norm_one_plus = false;   // norms multiply by 1 + weight
    bool pre_norms = true;        // what attention and MLP read is normalised
    bool post_norms = false;      // what they give is normalised before it is added
    bool layer_scales = false;    // each layer ends with a factor of its own for the stream
    bool attention_gate = false;  // a head's result is multiplied by the sigmoid of a gate
    float embedding_scale = 1.0f;
    float residual_scale = 1.0f;  // of what mixer and feed-forward add
    float logit_scale = 1.0f;
    float logit_cap = 0.0f;  // logits are cap * tanh(logits / cap); 0: as they are
    /// Size of each layer's own embedding of a token, an input in addition to the stream; 0: none.
    int layer_input_dim = 0;
    double attention_scale = 0.0;  // of q·k
    bool sinks = false;  // each head has a score that takes attention away from all tokens
    activation_kind activation = activation_kind::silu;
    float activation_limit = 0.0f;
    float activation_alpha = 1.702f;  // of swiglu_clamped
    mixture_config mixture;
    latent_config latent;
    recurrence_config recurrence;    // of delta_rule and state_space layers
    convolution_config convolution;  // of all recurrent layers
    std::vector<layer_config> layers;
    matrix_quantization quantization;  // of every matrix that has scales
    std::map<std::string, matrix_quantization, std::less<>> quantization_of;  // but these matrices
    sampling_rules sampling;  // generation_config.json's preference; temperature 1 without one
    std::vector<storage::token_id> eos_tokens;  // from config.json and generation_config.json

    /// All heads' queries, and all heads' values where attention hands them on.
    int query_width() const {
        return heads * (latent.rank > 0 ? latent.plain_dim + latent.rope_dim : head_dim);
    }
    int value_width() const { return heads * (latent.rank > 0 ? latent.value_dim : head_dim); }

    /// Layers that have K and V of their own, which are all that the KV layout knows of.
    int kv_layers() const;
    /// A layer's number among these, or its source's, or -1 where it does not attend.
    int kv_layer(int layer) const;
    /// Whether the layer's K and V are stored for it.
    bool stores_kv(int layer) const {
        const layer_config& each = layers[static_cast<std::size_t>(layer)];
        return each.mixer == mixer_kind::attention && each.kv_source < 0;
    }
    /// Of a layer that attends.
    int kv_heads_of(const layer_config& layer) const {
        return layer.kv_heads > 0 ? layer.kv_heads : kv_heads;
    }
    int head_dim_of(const layer_config& layer) const {
        return layer.head_dim > 0 ? layer.head_dim : head_dim;
    }
    int intermediate_of(const layer_config& layer) const {
        return layer.intermediate > 0 ? layer.intermediate : intermediate;
    }
    /// Whether all layers that attend have heads of the same number and width.
    bool has_uniform_heads() const;

    /// Conversations have at most `tokens` tokens. Where rope differs between short and long
    /// contexts, all of them have one of the two, which this decides; parse() decides by
    /// context_tokens_max. Requires: tokens > 0, fewer than in an earlier call.
    void choose_rope(int tokens);
    /// What choose_rope() has decided, for fingerprints: "" where there is no choice.
    std::string rope_identity() const;

    /// Bytes of what the recurrent layers know of the tokens read so far, a multiple of 64; 0 where
    /// there are none. One buffer for all layers, in ascending order: of each its matrices, then
    /// its columns, oldest first, then zeros up to a multiple of 64 bytes. The state of no tokens
    /// is all zeros.
    std::size_t state_bytes() const;
    /// Where in that buffer each layer's part lies; empty for a layer that has none.
    std::vector<state_region> state_regions() const;
    /// What the bytes of a state mean, for fingerprints: "" where state_bytes() is 0.
    std::string state_identity() const;

    /// The quantization of the matrix NAME.weight, if it has scales.
    const matrix_quantization& quantization_for(std::string_view name) const {
        const auto at = quantization_of.find(name);
        return at == quantization_of.end() ? quantization : at->second;
    }

    /// Errors: incompatible, one line that names the field and the value that this program does not
    /// support.
    static storage::result<model_config> parse(std::string_view config_json,
                                               std::string_view generation_config_json = {});
    /// Blocks. `model`: a folder, of which config.json and, when there, generation_config.json are
    /// read, or a GGUF file. Errors: incompatible as parse(), not_found, corrupt.
    static storage::result<model_config> load(const std::string& model);
};

/// model.safetensors.index.json as the sorted names of the files that it speaks of.
/// Errors: corrupt; also when a name would lead out of the model's folder.
storage::result<std::vector<std::string>> parse_weight_index(std::string_view index_json);

/// Bits of a cached element where nobody chose.
struct kv_default {
    int bits = 4;
    std::string_view why = {};  // "its keys have a bias"; empty where 4 bits do
};

/// Returns: 4, and 8 for latents, which every head's keys and values come from, and where keys have
/// a bias: a group's few large channels then leave nothing of the others at 4 bit.
kv_default default_kv(const model_config& config);

/// The KV geometry of a model: the seeds' ModelCacheSpec.
storage::kv_layout make_kv_layout(const model_config& config, storage::kv_recipe recipe,
                                  int block_tokens);

}  // namespace semantic::engine

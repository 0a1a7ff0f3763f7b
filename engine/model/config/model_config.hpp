// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration of a model, read from config.json or from a GGUF's metadata, and validated.
// Differences between families are data in this struct: other code does not ask for the family.
// Missing fields have the defaults of transformers' config classes. Immutable after load.

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
    double amplitude = 1.0;       // factor of cosines and sines
    std::vector<float> divisors;  // one for each frequency; empty: 1
    /// Divisors for contexts of at most original_context tokens; empty: the same. See
    /// model_config::choose_rope().
    std::vector<float> short_divisors;
    /// The share of a head's elements, from the first, that rotate; 0: none.
    double portion = 1.0;
    /// Whether `portion` is a share of pairs: the first pairs of the whole head rotate, the others
    /// do not.
    bool proportional = false;
    /// Queries are multiplied by 1 + query_growth * ln(1 + floor(position / original_context)).
    double query_growth = 0.0;
    /// The number of elements of a head that form pairs, whether they rotate or not.
    int rotated(int head_dim) const {
        return proportional ? head_dim : static_cast<int>(head_dim * portion);
    }
    bool operator==(const rope_parameters&) const = default;
};

/// The activation function of an MLP. relu_squared has no gate: down(relu(up(x))^2).
enum class activation_kind { silu, gelu_tanh, swiglu_clamped, relu_squared };

/// How a model's matrices are held in memory: as published, or quantised to at most 8 or 4 bits.
enum class weight_form { native, q8, q4 };

/// The form with this name; nothing if there is none.
std::optional<weight_form> find_weight_form(std::string_view name) noexcept;
const char* to_string(weight_form form) noexcept;  // "native", "q8", "q4"

/// How MLX has quantised a matrix: affine in groups of 64, or mxfp4 in blocks of 32 without biases.
struct matrix_quantization {
    enum class mode { none, affine, mxfp4 };
    mode how = mode::none;
    int bits = 0;  // affine: 4 or 8; mxfp4: 4
    bool operator==(const matrix_quantization&) const = default;
};

/// A mixture of experts, of which a router chooses some for each token.
struct mixture_config {
    int experts = 0;  // 0: the layers have one MLP
    int per_token = 0;
    int intermediate = 0;           // of one expert
    bool softmax_over_all = false;  // weights: softmax over all experts; false: over the chosen
    float scale = 1.0f;             // factor of the chosen experts' weights
    int groups = 1;                 // experts are in so many groups of equal size
    int groups_per_token = 1;       // groups whose experts may be chosen: those with the best ones
    int shared_intermediate = 0;    // width of the MLP that every token takes; 0: there is none
    bool fused = true;              // one tensor has all experts, and there are biases
    /// Weights are sigmoids of the scores instead of a softmax. Experts are chosen by sigmoid plus
    /// a bias, and groups by the sum of their two best experts.
    bool sigmoid = false;
    bool normalised = true;     // sigmoid: weights are divided by their sum plus norm_epsilon
    float norm_epsilon = 0.0f;  // see normalised
    bool shared_gate = false;   // the shared MLP's output is multiplied by a gate
    /// The layer has experts and an MLP side by side, each with norms of its own. The router reads
    /// the residual stream itself, and each expert has a factor.
    bool beside_mlp = false;
};

/// Multi-head latent attention. For each token the cache has one latent vector and one part of key
/// with rope, for all heads together. A head's key is its expansion of the latent followed by that
/// part, its value another expansion. They are not expanded: queries are multiplied into the space
/// of latents, and the result of attention is expanded afterwards. Source: DeepSeek-V2,
/// arXiv:2405.04434, section 2.1.
struct latent_config {
    int rank = 0;        // elements of the latent; 0: no latent attention
    int query_rank = 0;  // elements of the queries' latent; 0: queries come from the stream
    int plain_dim = 0;   // elements of a head's query and key without rope
    int rope_dim = 0;    // elements of the rest, with rope of neighbouring elements
    int value_dim = 0;   // elements of a head's value
    /// The epsilon of both latents' norms.
    static constexpr float norm_eps = 1e-6f;
    /// In the cache each part fills whole groups of 64; its padding is zero.
    int stored_rank() const { return (rank + 63) / 64 * 64; }
    int stored_rope() const { return (rope_dim + 63) / 64 * 64; }
};

struct layer_config {
    int window = 0;  // 0: full attention
    rope_parameters rope;
    bool mixture = false;  // the feed-forward part is a mixture of experts; false: one MLP
    mixer_kind mixer = mixer_kind::attention;
    bool feed_forward = true;  // false: the layer has only its mixer
    // 0: as the model.
    int kv_heads = 0;
    int head_dim = 0;
    int intermediate = 0;
    int kv_source = -1;             // the layer whose keys and values it reads; -1: its own
    bool values_from_keys = false;  // values are the output of k_proj, before norm and rope
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
    bool joint_qk_norm = false;   // the same with one norm over all heads
    bool value_norm = false;      // values are normalised head by head, without weights
    bool norm_one_plus = false;   // norms multiply by 1 + weight
    bool pre_norms = true;        // the inputs of attention and MLP are normalised
    bool post_norms = false;      // their outputs are normalised before they are added
    bool layer_scales = false;    // each layer ends by multiplying the stream by a factor
    bool attention_gate = false;  // a head's result is multiplied by the sigmoid of a gate
    float embedding_scale = 1.0f;
    float residual_scale = 1.0f;  // factor of the outputs of mixer and feed-forward part
    float logit_scale = 1.0f;
    float logit_cap = 0.0f;  // logits are cap * tanh(logits / cap); 0: as they are
    /// Size of per-layer embeddings, an input of each layer in addition to the stream; 0: none.
    int layer_input_dim = 0;
    double attention_scale = 0.0;  // factor of q·k
    bool sinks = false;            // each head has an attention sink (see attention::run())
    activation_kind activation = activation_kind::silu;
    float activation_limit = 0.0f;
    float activation_alpha = 1.702f;  // of swiglu_clamped
    mixture_config mixture;
    latent_config latent;
    recurrence_config recurrence;    // of delta_rule and state_space layers
    convolution_config convolution;  // of all recurrent layers
    std::vector<layer_config> layers;
    matrix_quantization quantization;  // of every matrix that has scales, except for the following
    std::map<std::string, matrix_quantization, std::less<>> quantization_of;  // by name
    sampling_rules sampling;  // defaults from generation_config.json; temperature 1 without one
    std::vector<storage::token_id> eos_tokens;  // from config.json and generation_config.json

    /// Numbers of all heads' queries, and of all heads' values as attention outputs them.
    int query_width() const {
        return heads * (latent.rank > 0 ? latent.plain_dim + latent.rope_dim : head_dim);
    }
    int value_width() const { return heads * (latent.rank > 0 ? latent.value_dim : head_dim); }

    /// The number of layers that store K and V of their own; the KV layout has only these.
    int kv_layers() const;
    /// The layer's number among these (its source's, if it reads another layer's K and V); -1 if it
    /// does not attend.
    int kv_layer(int layer) const;
    /// Whether the layer stores K and V of its own.
    bool stores_kv(int layer) const {
        const layer_config& each = layers[static_cast<std::size_t>(layer)];
        return each.mixer == mixer_kind::attention && each.kv_source < 0;
    }
    /// The layer's own values, or the model's. The first two are for layers that attend.
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

    /// For models whose rope differs between short and long contexts: chooses one of the two for
    /// conversations of at most `tokens` tokens. parse() chooses by context_tokens_max. Requires:
    /// tokens > 0, and fewer than in an earlier call.
    void choose_rope(int tokens);
    /// The choice of choose_rope(), as a text for fingerprints; "" if there is no choice.
    std::string rope_identity() const;

    /// Bytes of the state of all recurrent layers, a multiple of 64; 0 without such layers. One
    /// buffer has all layers in ascending order: each layer's matrices, then its columns, oldest
    /// first, then zeros up to a multiple of 64 bytes. The state before any token is all zeros.
    std::size_t state_bytes() const;
    /// The part of that buffer that belongs to each layer; of size 0 for layers without.
    std::vector<state_region> state_regions() const;
    /// A text that differs between states whose bytes have another meaning, for fingerprints; "" if
    /// state_bytes() is 0.
    std::string state_identity() const;

    /// The quantization of the matrix NAME.weight, if it has scales.
    const matrix_quantization& quantization_for(std::string_view name) const {
        const auto at = quantization_of.find(name);
        return at == quantization_of.end() ? quantization : at->second;
    }

    /// Reads the texts of the two files. Errors: incompatible, one line with the field and the
    /// value that is not supported.
    static storage::result<model_config> parse(std::string_view config_json,
                                               std::string_view generation_config_json = {});
    /// Blocks. `model`: a folder, whose config.json and generation_config.json (if there is one)
    /// are read, or a GGUF file. Errors: incompatible as parse(), not_found, corrupt.
    static storage::result<model_config> load(const std::string& model);
};

/// Returns: the sorted names of the files that model.safetensors.index.json lists. Errors: corrupt,
/// also if a name would lead out of the model's folder.
storage::result<std::vector<std::string>> parse_weight_index(std::string_view index_json);

/// The fewest bits of a cached element that suit a model without calibration.
struct kv_default {
    int bits = 4;
    std::string_view why = {};  // "its keys have a bias"; empty if 4 bits are enough
};

/// Returns: 4 bits; 8 for latents, from which the keys and values of all heads come, and for keys
/// with a bias, where a few large channels of a group would leave nothing of the others at 4 bits.
kv_default default_kv(const model_config& config);

/// The layout of a model's K and V in pool frames, by a recipe. Throws std::invalid_argument if the
/// recipe does not fit the model's heads or the block.
storage::kv_layout make_kv_layout(const model_config& config, storage::kv_recipe recipe,
                                  int block_tokens);

}  // namespace semantic::engine

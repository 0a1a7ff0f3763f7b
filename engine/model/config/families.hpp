// SPDX-License-Identifier: Apache-2.0
#pragma once
// The families of models (model_type in config.json). A row of a table for each family has the
// values that its config class in transformers assumes when a field is missing, and properties that
// no field says. Used by the sources of config/ only.

#include <span>
#include <string_view>

#include "engine/model/config/model_config.hpp"
#include "engine/model/config/rope_config.hpp"

namespace semantic::engine {

inline constexpr int dimension_max = 1 << 20;
inline constexpr int vocabulary_max = 1 << 22;

/// Which layers attend within a sliding window, if `layer_types` does not say.
enum class window_rule {
    never,
    behind_max_window_layers,
    all_but_every_nth,  // of sliding_window_pattern, or the family's
    all_but_every_nth_and_last,
    all_but_every_second,
    every_layer,           // unless sliding_window is null
    every_layer_if_asked,  // by use_sliding_window
    every_layer_if_given,  // by a sliding_window that is narrower than the context
};

/// Whether attention's output projection has a bias.
enum class output_bias {
    as_others,  // if the projections to queries, keys and values have one
    never,
    by_field,  // attention_out_bias
};

/// Which names a family uses for the sizes of its recurrent layers.
enum class recurrent_spelling {
    none,               // all layers attend
    short_convolution,  // LFM2
    linear_attention,   // Qwen3-Next and Qwen3.5
    mamba,              // Granite 4
    blocks,             // Nemotron-H: Mamba-2, and a layer is a mixer or a feed-forward
};

/// The sizes of latent attention, if the file does not say.
struct latent_sizes {
    int rank = 512, query_rank = 1536, plain_dim = 128, rope_dim = 64, value_dim = 128;
};

/// One family: the defaults of missing fields, and properties that no field says. Other code reads
/// this row and never compares names of families. Source: transformers, configuration_*.py and
/// modeling_*.py (read 2026-11).
struct family_defaults {
    const char* model_type;
    int vocabulary = 32000;
    int hidden = 4096;
    int intermediate = 11008;
    int layers = 32;
    int heads = 32;
    int kv_heads = 0;  // 0: as many as heads
    int head_dim = 0;  // 0: hidden / heads
    int context = 2048;
    double norm_eps = 1e-6;
    rope_defaults rope = {};
    bool tied_head = false;
    int eos = -1;  // none
    window_rule windows = window_rule::never;
    int window = 4096;
    int window_pattern = 6;
    int rope_free_every = 0;  // every n-th layer has no rope, unless no_rope_layers says; 0: none
    bool rope_free_full = false;  // in models with windows, layers without one have no rope
    bool always_qkv_bias = false;
    bool attention_bias = false;
    output_bias o_bias = output_bias::as_others;
    bool may_have_mlp_bias = false;
    bool qk_norm = false;
    bool joint_qk_norm = false;  // one norm over all heads
    bool asks_qk_norm = false;   // norms of queries and keys only if use_qk_norm is true
    bool sinks = false;
    bool norm_one_plus = false;
    bool pre_norms = true;
    bool post_norms = false;
    bool scaled_embedding = false;
    bool value_norm = false;
    bool layer_scales = false;
    bool caps_logits = false;   // by final_logit_softcapping
    double query_scalar = 0.0;  // 0: head_dim
    const char* activation_field = "hidden_act";
    const char* activation_name = "silu";
    activation_kind activation = activation_kind::silu;
    int experts = 0;
    int experts_per_token = 0;    // 0: the file must say
    int expert_intermediate = 0;  // of experts in tensors of their own; 0: fused, as wide as an MLP
    bool leading_dense = false;   // of first_k_dense_replace layers, or by mlp_layer_types
    bool latent = false;          // latent attention, and routed and shared experts
    latent_sizes latents = {};
    bool kinds_differ = false;  // layers differ in their heads, and may read another layer's keys
    recurrent_spelling recurrent = recurrent_spelling::none;
    bool attention_gate = false;
    const char* norm_eps_field = "rms_norm_eps";
    bool has_multipliers = false;    // factors of embedding, residual stream, scores and logits
    bool normalised_choice = false;  // default of norm_topk_prob
    double sigmoid_epsilon = 0.0;    // added to the sum of the experts' sigmoids; 0: softmax
    bool shared_gate = false;        // the shared experts have a gate
    bool adjusts_width = false;      // an MLP has two thirds of the file's width, rounded up
    const char* text_model_type = nullptr;  // multimodal: `text_config` is of this family
};

std::span<const family_defaults> model_families();
/// The family with this model_type; null if it is not supported.
const family_defaults* find_family(std::string_view model_type);
/// The reason why a known architecture does not run, for an error message after its name: ": its …
/// are not computed". Empty for other names. `architecture`: a model_type, or a GGUF's
/// general.architecture.
std::string_view missing_mechanism(std::string_view architecture);

}  // namespace semantic::engine

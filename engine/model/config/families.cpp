#include "engine/model/config/families.hpp"

namespace semantic::engine {

namespace {

constexpr family_defaults families[] = {
    {.model_type = "llama", .eos = 2, .may_have_mlp_bias = true},
    {.model_type = "qwen2",
     .vocabulary = 151936,
     .intermediate = 22016,
     .kv_heads = 32,
     .context = 32768,
     .windows = window_rule::behind_max_window_layers,
     .always_qkv_bias = true},
    {.model_type = "qwen3",
     .vocabulary = 151936,
     .intermediate = 22016,
     .kv_heads = 32,
     .head_dim = 128,
     .context = 32768,
     .windows = window_rule::behind_max_window_layers,
     .qk_norm = true},
    {.model_type = "qwen3_moe",
     .vocabulary = 151936,
     .hidden = 2048,
     .intermediate = 6144,
     .layers = 24,
     .kv_heads = 4,
     .context = 32768,
     .windows = window_rule::every_layer_if_asked,
     .qk_norm = true,
     .experts = 128,
     .experts_per_token = 8,
     .expert_intermediate = 768},
    {.model_type = "mistral",
     .intermediate = 14336,
     .kv_heads = 8,
     .context = 131072,
     .eos = 2,
     .windows = window_rule::every_layer},
    {.model_type = "gemma3_text",
     .vocabulary = 262208,
     .hidden = 2304,
     .intermediate = 9216,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .context = 131072,
     .rope = {.theta = 1e6, .theta_sliding = 10000.0},
     .tied_head = true,
     .eos = 1,
     .windows = window_rule::all_but_every_nth,
     .qk_norm = true,
     .norm_one_plus = true,
     .post_norms = true,
     .scaled_embedding = true,
     .query_scalar = 256.0,
     .activation_field = "hidden_activation",
     .activation_name = "gelu_pytorch_tanh",
     .activation = activation_kind::gelu_tanh},
    {.model_type = "gemma3", .text_model_type = "gemma3_text"},
    {.model_type = "gpt_oss",
     .vocabulary = 201088,
     .hidden = 2880,
     .intermediate = 2880,
     .layers = 36,
     .heads = 64,
     .kv_heads = 8,
     .head_dim = 64,
     .context = 131072,
     .norm_eps = 1e-5,
     .rope = {.theta = 150000.0,
              .scaling = R"({"rope_type": "yarn", "factor": 32.0, "truncate": false,
                             "original_max_position_embeddings": 4096})"},
     .windows = window_rule::all_but_every_second,
     .window = 128,
     .attention_bias = true,
     .sinks = true,
     .activation = activation_kind::swiglu_clamped,
     .experts = 128,
     .experts_per_token = 4},
    {.model_type = "deepseek_v2",
     .vocabulary = 102400,
     .eos = 2,
     .may_have_mlp_bias = true,
     .experts = 64,
     .latent = true},
};

}  // namespace

std::span<const family_defaults> model_families() { return families; }

const family_defaults* find_family(std::string_view model_type) {
    for (const family_defaults& family : families) {
        if (model_type == family.model_type) return &family;
    }
    return nullptr;
}

}  // namespace semantic::engine

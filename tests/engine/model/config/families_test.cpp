// SPDX-License-Identifier: Apache-2.0
// Reading config.json of families that are rows of data: the position of each name, the default
// when it is missing, and what is refused.

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model/config/model_config.hpp"

namespace semantic::engine {
namespace {

storage::result<model_config> read(const std::string& fields) {
    return model_config::parse("{" + fields + "}");
}

model_config parsed(const std::string& type, const std::string& more = "") {
    auto made = read("\"model_type\": \"" + type + "\"" + (more.empty() ? "" : ", " + more));
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    return made ? *made : model_config{};
}

void expect_refusal(const std::string& type, const std::string& more, const std::string& part) {
    const auto made = read("\"model_type\": \"" + type + "\", " + more);
    ASSERT_FALSE(made) << more;
    EXPECT_NE(made.error().what.find(part), std::string::npos) << made.error().what;
}

TEST(families, layers_without_rope_are_listed_or_come_at_an_interval) {
    const auto turns = [](const model_config& config) {
        std::string out;
        for (const layer_config& layer : config.layers) out += layer.rope.portion > 0 ? '1' : '0';
        return out;
    };
    EXPECT_EQ(turns(parsed("smollm3", R"("num_hidden_layers": 6)")), "111011");
    EXPECT_EQ(turns(parsed("smollm3", R"("num_hidden_layers": 4, "no_rope_layer_interval": 2)")),
              "1010");
    EXPECT_EQ(turns(parsed("smollm3", R"("num_hidden_layers": 3, "no_rope_layers": [0, 1, 1])")),
              "011");
    expect_refusal("smollm3", R"("num_hidden_layers": 3, "no_rope_layers": [0, 1])",
                   "no_rope_layers is [0,1]");
    expect_refusal("smollm3", R"("use_sliding_window": true)", "use_sliding_window is true");
}

TEST(families, olmo_2_is_olmo_3_without_windows) {
    const model_config config = parsed("olmo2", R"("num_hidden_layers": 2)");
    for (const layer_config& layer : config.layers) EXPECT_EQ(layer.window, 0);
    EXPECT_TRUE(config.post_norms && !config.pre_norms && config.joint_qk_norm && !config.qk_norm);
}

TEST(families, full_layers_have_no_rope_where_others_have_windows) {
    const model_config config = parsed("exaone4", R"("num_hidden_layers": 5)");
    for (const std::size_t i : {0u, 1u, 2u, 4u}) {
        EXPECT_EQ(config.layers[i].window, 4096);
        EXPECT_EQ(config.layers[i].rope.portion, 1.0);
    }
    EXPECT_EQ(config.layers[3].window, 0);
    EXPECT_EQ(config.layers[3].rope.portion, 0.0);
    EXPECT_TRUE(config.post_norms && !config.pre_norms && config.qk_norm && !config.joint_qk_norm);
    // The 1.2B has no windows, and says so.
    const model_config small = parsed("exaone4", R"("num_hidden_layers": 2,
        "sliding_window": null, "layer_types": ["full_attention", "full_attention"])");
    for (const layer_config& layer : small.layers) EXPECT_EQ(layer.rope.portion, 1.0);
}

TEST(families, an_mlp_may_have_no_gate) {
    const model_config config = parsed("arcee", R"("hidden_act": "relu2")");
    EXPECT_EQ(config.activation, activation_kind::relu_squared);
    expect_refusal("arcee", R"("hidden_act": "silu")", "supported is relu2");
}

TEST(families, scaled_rope_may_be_of_full_layers_alone) {
    const model_config config = parsed("olmo3", R"("num_hidden_layers": 5, "rope_theta": 500000,
        "rope_scaling": {"rope_type": "yarn", "factor": 8, "attention_factor": 1.25,
                         "original_max_position_embeddings": 128})");
    for (int i : {0, 1, 2, 4}) {
        EXPECT_EQ(config.layers[static_cast<std::size_t>(i)].window, 4096);
        EXPECT_EQ(config.layers[static_cast<std::size_t>(i)].rope.type,
                  rope_parameters::scaling::none);
        EXPECT_EQ(config.layers[static_cast<std::size_t>(i)].rope.theta, 500000.0);
    }
    EXPECT_EQ(config.layers[3].window, 0);
    EXPECT_EQ(config.layers[3].rope.type, rope_parameters::scaling::yarn);
    EXPECT_EQ(config.layers[3].rope.amplitude, 1.25);
    EXPECT_TRUE(config.post_norms && !config.pre_norms && config.joint_qk_norm && !config.qk_norm);
}

TEST(families, one_list_of_rope_factors_is_for_contexts_up_to_the_original_one) {
    const std::string lists = R"("hidden_size": 64, "num_attention_heads": 8,
        "num_hidden_layers": 1, "partial_rotary_factor": 0.5, "max_position_embeddings": 8192,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4]})";
    model_config config = parsed("phi3", lists);
    EXPECT_EQ(config.layers[0].rope.divisors, (std::vector<float>{3, 4}));
    EXPECT_EQ(config.rope_identity(), "rope=long factors");
    EXPECT_NEAR(config.layers[0].rope.amplitude, std::sqrt(1.0 + std::log(2.0) / std::log(4096.0)),
                1e-12);
    config.choose_rope(4097);
    EXPECT_EQ(config.rope_identity(), "rope=long factors");
    config.choose_rope(4096);
    EXPECT_EQ(config.layers[0].rope.divisors, (std::vector<float>{1, 2}));
    EXPECT_EQ(config.rope_identity(), "rope=short");
    EXPECT_EQ(parsed("phi3").rope_identity(), "");
    expect_refusal("phi3", lists + R"(, "head_dim": 16)", "rope has 2 factors, and a head 4 pairs");
}

TEST(families, a_window_as_wide_as_the_context_is_none) {
    const auto window = [](const std::string& type, const std::string& more) {
        return parsed(type, R"("max_position_embeddings": 4096)" + more).layers[0].window;
    };
    EXPECT_EQ(window("phi3", ""), 0);
    EXPECT_EQ(window("phi3", R"(, "sliding_window": null)"), 0);
    EXPECT_EQ(window("phi3", R"(, "sliding_window": 4095)"), 4095);
    EXPECT_EQ(window("phi3", R"(, "sliding_window": 4096)"), 0);
    EXPECT_EQ(window("ministral3", R"(, "sliding_window": 2047)"), 2047);
}

TEST(families, queries_grow_with_the_position_where_the_file_says_so) {
    const model_config config = parsed("ministral3");
    EXPECT_EQ(config.layers[0].rope.query_growth, 0.1);
    EXPECT_EQ(config.layers[0].rope.original_context, 16384.0);
    EXPECT_EQ(config.layers[0].rope.amplitude, 1.0);
    EXPECT_EQ(parsed("mistral").layers[0].rope.query_growth, 0.0);
}

TEST(families, the_language_model_inside_may_be_of_either_kind) {
    const auto inside = [](const std::string& type) {
        return parsed("mistral3", R"("text_config": {"model_type": ")" + type + R"("})").family;
    };
    EXPECT_EQ(inside("mistral"), "mistral");
    EXPECT_EQ(inside("ministral3"), "ministral3");
    EXPECT_EQ(parsed("mistral3", R"("text_config": {})").family, "mistral");
    expect_refusal("mistral3", R"("text_config": {"model_type": "other"})",
                   "text_config.model_type is \"other\": supported are llama, ");
}

TEST(families, biases_stand_where_each_family_has_them) {
    const model_config seed = parsed("seed_oss");
    EXPECT_TRUE(seed.qkv_bias && !seed.o_bias);
    EXPECT_TRUE(parsed("seed_oss", R"("attention_out_bias": true)").o_bias);
    EXPECT_FALSE(parsed("seed_oss", R"("attention_bias": false)").qkv_bias);
    const model_config glm = parsed("glm4_moe", R"("attention_bias": true)");
    EXPECT_TRUE(glm.qkv_bias && !glm.o_bias);
    EXPECT_FALSE(glm.qk_norm);
    EXPECT_TRUE(parsed("glm4_moe", R"("use_qk_norm": true)").qk_norm);
}

TEST(families, multipliers_are_read) {
    const model_config config = parsed("granite", R"("embedding_multiplier": 12.0,
        "residual_multiplier": 0.5, "attention_multiplier": 0.25, "logits_scaling": 4.0)");
    EXPECT_EQ(config.embedding_scale, 12.0f);
    EXPECT_EQ(config.residual_scale, 0.5f);
    EXPECT_EQ(config.attention_scale, 0.25);
    EXPECT_EQ(config.logit_scale, 0.25f);
}

TEST(families, experts_that_sigmoids_choose_stand_behind_dense_layers) {
    const model_config config = parsed("glm4_moe", R"("num_hidden_layers": 3,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "n_shared_experts": 2, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5)");
    EXPECT_FALSE(config.layers[0].mixture);
    EXPECT_TRUE(config.layers[1].mixture && config.layers[2].mixture);
    EXPECT_TRUE(config.mixture.sigmoid && config.mixture.normalised);
    EXPECT_EQ(config.mixture.shared_intermediate, 128);
    EXPECT_EQ(config.mixture.groups, 4);
    EXPECT_EQ(config.mixture.scale, 1.5f);
    EXPECT_EQ(config.layers[0].rope.portion, 0.5);
    const model_config listed = parsed("glm4_moe_lite", R"("num_hidden_layers": 3,
        "mlp_layer_types": ["dense", "sparse", "dense"])");
    EXPECT_TRUE(!listed.layers[0].mixture && listed.layers[1].mixture && !listed.layers[2].mixture);
    EXPECT_EQ(listed.latent.query_rank, 768);
    EXPECT_EQ(listed.latent.value_dim, 256);
    const std::pair<const char*, const char*> cases[] = {
        {R"("scoring_func": "softmax")", "scoring_func is \"softmax\": supported is sigmoid"},
        {R"("topk_method": "greedy")", "topk_method is \"greedy\": supported is noaux_tc"},
        {R"("n_group": 7)", "n_group is 7"},
        {R"("mlp_layer_types": ["dense"])", "mlp_layer_types is [\"dense\"]"},
        {R"("rope_interleave": false)", "rope_interleave is false"},
    };
    for (const auto& [field, part] : cases) expect_refusal("glm4_moe_lite", field, part);
}

constexpr const char* small_gemma4 = R"("num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "global_head_dim": 128, "attention_k_eq_v": true,
    "num_global_key_value_heads": 1, "hidden_size_per_layer_input": null,
    "final_logit_softcapping": 30.0, "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                           "rope_theta": 1000000.0},
        "sliding_attention": {"rope_theta": 10000.0}})";

TEST(families, layers_of_two_kinds_have_heads_of_their_own) {
    const model_config config = parsed("gemma4_text", small_gemma4);
    const layer_config& sliding = config.layers[4];
    const layer_config& full = config.layers[5];
    EXPECT_EQ(sliding.window, 512);
    EXPECT_EQ(full.window, 0);
    EXPECT_EQ(config.kv_heads_of(sliding), 2);
    EXPECT_EQ(config.head_dim_of(sliding), 64);
    EXPECT_EQ(config.kv_heads_of(full), 1);
    EXPECT_EQ(config.head_dim_of(full), 128);
    EXPECT_TRUE(full.values_from_keys && !sliding.values_from_keys);
    EXPECT_TRUE(full.rope.proportional && !sliding.rope.proportional);
    EXPECT_EQ(full.rope.portion, 0.25);
    EXPECT_EQ(full.rope.rotated(128), 128);
    EXPECT_EQ(sliding.rope.theta, 10000.0);
    EXPECT_EQ(config.attention_scale, 1.0);
    EXPECT_EQ(config.logit_cap, 30.0f);
    const storage::kv_layout layout = make_kv_layout(config, {4, 64}, 256);
    EXPECT_EQ(layout.layer(4).kv_heads, 2);
    EXPECT_EQ(layout.k(5).dim, 128);
}

TEST(families, what_layers_differ_in_may_be_listed_by_layer) {
    const model_config config = parsed("gemma4_text", R"("num_hidden_layers": 2, "head_dim": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size_per_layer_input": 0,
        "layer_types": ["sliding_attention", "full_attention"],
        "per_layer_config": {"1": {"head_dim": 128, "num_key_value_heads": 1}})");
    EXPECT_EQ(config.head_dim_of(config.layers[0]), 64);
    EXPECT_EQ(config.head_dim_of(config.layers[1]), 128);
    EXPECT_EQ(config.kv_heads_of(config.layers[1]), 1);
    EXPECT_FALSE(config.layers[1].values_from_keys);
}

TEST(families, the_last_layers_read_the_keys_of_the_last_one_of_their_kind) {
    const model_config config = parsed("gemma4_text", R"("num_hidden_layers": 7, "head_dim": 64,
        "intermediate_size": 96, "hidden_size_per_layer_input": 0, "use_double_wide_mlp": true,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
            "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "num_kv_shared_layers": 3)");
    const int sources[] = {-1, -1, -1, -1, 1, 3, 1};
    for (std::size_t i = 0; i < 7; ++i) {
        EXPECT_EQ(config.layers[i].kv_source, sources[i]) << i;
        EXPECT_EQ(config.intermediate_of(config.layers[i]), i < 4 ? 96 : 192) << i;
    }
    EXPECT_EQ(config.kv_layers(), 4);
    EXPECT_EQ(config.kv_layer(4), 1);
    EXPECT_EQ(config.kv_layer(5), 3);
    EXPECT_EQ(make_kv_layout(config, {4, 64}, 256).layer_count(), 4);
    EXPECT_THROW(make_kv_layout(config, storage::find_kv_recipe("k6s-v5r-w16").value(), 256),
                 std::invalid_argument);
}

TEST(families, unsupported_gemma4_values_are_refused_by_name) {
    const std::pair<const char*, const char*> cases[] = {
        {R"("attn_logit_softcapping": 50.0)", "attn_logit_softcapping is 5E1"},
        {R"("use_bidirectional_attention": "all")", "use_bidirectional_attention is \"all\""},
        {R"("num_kv_shared_layers": 6)", "num_kv_shared_layers is 6"},
        {R"("layer_types": ["full_attention", "full_attention", "full_attention",
             "full_attention", "full_attention", "sliding_attention"],
             "num_kv_shared_layers": 1)",
         "num_kv_shared_layers is 1: no layer before"},
        {R"("per_layer_config": {"0": {"hidden_act": 1}})", "per_layer_config.0.hidden_act is 1"},
        {R"("per_layer_config": {"0": {"num_key_value_heads": 3}})", "a layer has 3 heads"},
        {R"("per_layer_config": {"0": {"head_dim": 63}})", "a layer's head_dim is 63"},
        {R"("enable_moe_block": true)", "num_experts is missing"},
    };
    for (const auto& [field, part] : cases)
        expect_refusal("gemma4_text", std::string(field) + ", " + small_gemma4, part);
    expect_refusal("gemma4_text", R"("num_hidden_layers": 1, "vocab_size": 320)",
                   "vocab_size_per_layer_input is not vocab_size 320");
}

TEST(families, of_recurrent_layers_alone_are_refused_by_name) {
    const std::string shape = R"("num_hidden_layers": 3, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, )";
    const std::string linear = R"("linear_num_key_heads": 2, "linear_num_value_heads": 2,
        "linear_key_head_dim": 32, "linear_value_head_dim": 32, )";
    const std::string space = R"("mamba_num_heads": 4, "mamba_n_heads": 4, "mamba_head_dim": 32,
        "mamba_d_head": 32, "mamba_d_state": 16, "ssm_state_size": 16, "mamba_expand": 2,
        "expand": 2, "n_groups": 1, "mamba_n_groups": 1, )";
    const auto three = [](const std::string& kind) {
        return R"("layer_types": [")" + kind + R"(", ")" + kind + R"(", ")" + kind + R"("])";
    };
    const auto expect_named = [&](const std::string& type, const std::string& fields) {
        expect_refusal(type, shape + fields,
                       "none of the 3 layers of this " + type +
                           " attends: models of recurrent layers alone are not supported");
    };
    for (const char* type : {"qwen3_5_text", "qwen3_next"})
        expect_named(type, linear + three("linear_attention"));
    expect_named("lfm2", three("conv"));
    expect_named("granitemoehybrid", space + three("mamba"));
    expect_named("nemotron_h", space + R"("hybrid_override_pattern": "M-M")");
    parsed("qwen3_5_text", shape + linear + R"("layer_types": ["linear_attention",
        "full_attention", "linear_attention"])");
}

}  // namespace
}  // namespace semantic::engine

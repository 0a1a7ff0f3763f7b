// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/model_config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace semantic::engine {
namespace {

using storage::errc;
using storage::token_id;

std::string config_json(const std::string& fields) {
    return R"({"model_type": "llama")" + (fields.empty() ? "" : ", " + fields) + "}";
}

model_config parsed(const std::string& fields, const std::string& generation = "") {
    auto config = model_config::parse(config_json(fields), generation);
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return config ? *config : model_config{};
}

std::string refusal(const std::string& fields, const std::string& generation = "") {
    auto config = model_config::parse(config_json(fields), generation);
    if (config) return "(accepted)";
    EXPECT_EQ(config.error().code, errc::incompatible);
    EXPECT_EQ(config.error().what.find('\n'), std::string::npos);
    return config.error().what;
}

TEST(model_config, missing_fields_take_the_values_of_the_reference_class) {
    const model_config c = parsed("");
    EXPECT_EQ(c.family, "llama");
    EXPECT_EQ(c.vocabulary, 32000);
    EXPECT_EQ(c.hidden, 4096);
    EXPECT_EQ(c.intermediate, 11008);
    EXPECT_EQ(c.layers.size(), 32u);
    EXPECT_EQ(c.heads, 32);
    EXPECT_EQ(c.kv_heads, 32);
    EXPECT_EQ(c.head_dim, 128);
    EXPECT_EQ(c.context_tokens_max, 2048);
    EXPECT_FLOAT_EQ(c.norm_eps, 1e-6f);
    EXPECT_FALSE(c.tied_head);
    EXPECT_FALSE(c.qkv_bias);
    EXPECT_FALSE(c.o_bias);
    EXPECT_FALSE(c.qk_norm);
    EXPECT_FALSE(c.mlp_bias);
    EXPECT_EQ(c.quantization.bits, 0);
    EXPECT_EQ(c.layers[0].rope.theta, 10000.0);
    EXPECT_EQ(c.layers[0].rope.type, rope_parameters::scaling::none);
    EXPECT_EQ(c.layers[0].window, 0);
    EXPECT_EQ(c.eos_tokens, (std::vector<token_id>{2}));
}

TEST(model_config, null_counts_as_missing) {
    const model_config c =
        parsed(R"("num_key_value_heads": null, "head_dim": null, "rope_scaling": null)");
    EXPECT_EQ(c.kv_heads, 32);
    EXPECT_EQ(c.head_dim, 128);
}

TEST(model_config, key_value_heads_follow_the_heads_and_head_dim_may_stand_apart) {
    const model_config c = parsed(R"("hidden_size": 96, "num_attention_heads": 6, "head_dim": 64)");
    EXPECT_EQ(c.kv_heads, 6);
    EXPECT_EQ(c.head_dim, 64);
}

TEST(model_config, both_rope_spellings_say_the_same) {
    const model_config published = parsed(
        R"("rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0,
           "low_freq_factor": 1.0, "original_max_position_embeddings": 256,
           "rope_type": "llama3"})");
    const model_config current = parsed(
        R"("rope_parameters": {"rope_theta": 500000.0, "factor": 8.0, "high_freq_factor": 4.0,
           "low_freq_factor": 1.0, "original_max_position_embeddings": 256,
           "rope_type": "llama3"})");
    for (const model_config& c : {published, current}) {
        const rope_parameters& rope = c.layers.back().rope;
        EXPECT_EQ(rope.type, rope_parameters::scaling::llama3);
        EXPECT_EQ(rope.theta, 500000.0);
        EXPECT_EQ(rope.factor, 8.0);
        EXPECT_EQ(rope.low_freq_factor, 1.0);
        EXPECT_EQ(rope.high_freq_factor, 4.0);
        EXPECT_EQ(rope.original_context, 256.0);
    }
}

TEST(model_config, the_oldest_spelling_of_the_scaling_type_is_read) {
    const model_config c = parsed(R"("rope_scaling": {"type": "linear", "factor": 4})");
    EXPECT_EQ(c.layers[0].rope.type, rope_parameters::scaling::linear);
    EXPECT_EQ(c.layers[0].rope.factor, 4.0);
}

TEST(model_config, unsupported_values_are_refused_by_name) {
    const std::pair<const char*, const char*> cases[] = {
        {R"("hidden_act": "gelu")", "hidden_act is \"gelu\""},
        {R"("rope_scaling": {"rope_type": "dynamic", "factor": 4})",
         "rope_scaling.rope_type is \"dynamic\""},
        {R"("rope_scaling": {"rope_type": "longrope", "short_factor": [1]})",
         "rope_scaling.long_factor is missing"},
        {R"("rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [0]})",
         "rope_scaling.long_factor is 0: numbers above 0"},
        {R"("rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [2]})",
         "original_max_position_embeddings is missing"},
        {R"("rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [2],
            "original_max_position_embeddings": 4096})",
         "rope has 1 factors, and a head"},
        {R"("rope_scaling": {"rope_type": "yarn"})", "rope_scaling.factor is missing"},
        {R"("rope_parameters": {"rope_type": "dynamic", "factor": 4})",
         "rope_parameters.rope_type is \"dynamic\""},
        {R"("rope_parameters": {"full_attention": {"rope_theta": 1}})",
         "rope_parameters.full_attention is"},
        {R"("rope_scaling": {"rope_type": "llama3"})", "rope_scaling.factor is missing"},
        {R"("quantization": {"group_size": 32, "bits": 4})", "quantization.group_size is 32"},
        {R"("quantization": {"group_size": 64, "bits": 3})", "quantization.bits is 3"},
        {R"("quantization": {"bits": 4, "mode": "nvfp4"})", "quantization.mode is \"nvfp4\""},
        {R"("quantization": {"bits": 4, "mode": "mxfp4", "group_size": 64})",
         "quantization.group_size is 64"},
        {R"("quantization": {"bits": 4, "lm_head": {"bits": 3}})", "quantization.lm_head.bits is"},
        {R"("quantization_config": {"quant_method": "awq"})",
         "quantization_config.quant_method is \"awq\""},
        {R"("quantization_config": {"quant_method": "mxfp4"})",
         "quantization_config.quant_method is \"mxfp4\""},
        {R"("layer_types": ["full_attention", "sliding_attention"])",
         "layer_types is \"sliding_attention\""},
        {R"("num_attention_heads": 6, "num_key_value_heads": 4)", "num_key_value_heads is 4"},
        {R"("num_attention_heads": 3)", "num_attention_heads is 3"},
        {R"("head_dim": 65)", "head_dim is 65"},
        {R"("hidden_size": "big")", "hidden_size is \"big\": a whole number"},
        {R"("hidden_size": 0)", "hidden_size is 0"},
        {R"("hidden_size": 1048577)", "hidden_size is 1048577"},
        {R"("num_hidden_layers": 4097)", "num_hidden_layers is 4097"},
        {R"("rms_norm_eps": 0)", "rms_norm_eps is 0"},
        {R"("tie_word_embeddings": 1)", "tie_word_embeddings is 1"},
        {R"("eos_token_id": 32000)", "eos_token_id is 32000"},
        {R"("eos_token_id": [1, "2"])", "eos_token_id is [1,\"2\"]"},
    };
    for (const auto& [fields, said] : cases) {
        EXPECT_NE(refusal(fields).find(said), std::string::npos)
            << fields << " gave: " << refusal(fields);
    }
}

TEST(model_config, an_unknown_family_is_refused_with_the_known_ones) {
    auto config = model_config::parse(R"({"model_type": "mamba"})");
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().what,
              "config.json: model_type is \"mamba\": supported are llama, qwen2, qwen3, "
              "qwen3_moe, mistral, gemma3_text, gemma3, gemma4_text, gemma4, gpt_oss, "
              "deepseek_v2, ministral3, "
              "mistral3, smollm3, granite, olmo3, olmo2, exaone4, arcee, phi3, seed_oss, glm4_moe, "
              "glm4_moe_lite, lfm2, lfm2_moe, qwen3_next, qwen3_5_text, qwen3_5, qwen3_5_moe_text, "
              "qwen3_5_moe, "
              "granitemoehybrid, nemotron_h");
}

TEST(model_config, a_known_family_that_does_not_run_is_refused_with_what_it_lacks) {
    for (const std::string family : {"gemma3n", "gemma3n_text"}) {
        const auto config = model_config::parse(R"({"model_type": ")" + family + R"("})");
        ASSERT_FALSE(config);
        const std::string begins = "config.json: model_type is \"" + family +
                                   "\": its AltUp streams, LAuReL branches and sparse gates are "
                                   "not computed; supported are llama, qwen2, ";
        EXPECT_TRUE(config.error().what.starts_with(begins)) << config.error().what;
        EXPECT_TRUE(config.error().what.find("gemma4") != std::string::npos);
    }
    const auto capped = model_config::parse(R"({"model_type": "gemma2"})");
    ASSERT_FALSE(capped);
    EXPECT_NE(capped.error().what.find("\"gemma2\": its capped attention scores are not computed"),
              std::string::npos)
        << capped.error().what;
}

/// `fields` under another family.
model_config parsed_as(const std::string& family, const std::string& fields) {
    auto config = model_config::parse("{\"model_type\": \"" + family + "\"" +
                                      (fields.empty() ? "" : ", " + fields) + "}");
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return config ? *config : model_config{};
}

std::string refusal_as(const std::string& family, const std::string& fields) {
    auto config = model_config::parse("{\"model_type\": \"" + family + "\", " + fields + "}");
    return config ? "(accepted)" : config.error().what;
}

TEST(model_config, yarn_scaling_is_read_with_the_defaults_of_the_reference) {
    const rope_parameters plain =
        parsed(R"("max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", "factor": 4})")
            .layers[0]
            .rope;
    EXPECT_EQ(plain.type, rope_parameters::scaling::yarn);
    EXPECT_EQ(plain.original_context, 4096.0);
    EXPECT_EQ(plain.beta_fast, 32.0);
    EXPECT_EQ(plain.beta_slow, 1.0);
    EXPECT_TRUE(plain.truncate);
    EXPECT_NEAR(plain.amplitude, 0.1 * std::log(4.0) + 1.0, 1e-12);
    const rope_parameters same =
        parsed(R"("rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.7,
                                   "mscale_all_dim": 0.7, "truncate": false})")
            .layers[0]
            .rope;
    EXPECT_EQ(same.amplitude, 1.0);
    EXPECT_FALSE(same.truncate);
    EXPECT_EQ(parsed(R"("rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 2})")
                  .layers[0]
                  .rope.amplitude,
              2.0);
}

TEST(model_config, qwen_families_take_their_own_defaults) {
    const model_config two = parsed_as("qwen2", "");
    EXPECT_EQ(two.vocabulary, 151936);
    EXPECT_EQ(two.context_tokens_max, 32768);
    EXPECT_EQ(two.kv_heads, 32);
    EXPECT_EQ(two.head_dim, 128);
    EXPECT_TRUE(two.qkv_bias);
    EXPECT_FALSE(two.o_bias);
    EXPECT_TRUE(two.eos_tokens.empty());
    const model_config three = parsed_as("qwen3", R"("hidden_size": 1024, "num_attention_heads": 16,
        "num_key_value_heads": 8)");
    EXPECT_EQ(three.head_dim, 128);  // not 1024 / 16
    EXPECT_TRUE(three.qk_norm);
    EXPECT_FALSE(three.qkv_bias);
    EXPECT_EQ(
        parsed_as("qwen3", R"("num_attention_heads": 16, "num_key_value_heads": null)").kv_heads,
        16);
}

TEST(model_config, windows_come_from_layer_types_or_from_the_familys_rule) {
    EXPECT_EQ(parsed_as("qwen2", R"("sliding_window": 100)").layers.back().window, 0);
    const model_config rule = parsed_as("qwen2", R"("use_sliding_window": true,
        "sliding_window": 100, "max_window_layers": 30)");
    EXPECT_EQ(rule.layers[29].window, 0);
    EXPECT_EQ(rule.layers[30].window, 100);
    EXPECT_EQ(rule.layers[31].window, 100);
    const model_config types = parsed_as("qwen3", R"("num_hidden_layers": 2, "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"])");
    EXPECT_EQ(types.layers[0].window, 8);
    EXPECT_EQ(types.layers[1].window, 0);
    EXPECT_NE(refusal_as("qwen3", R"("layer_types": ["full_attention"])")
                  .find("layer_types has 1 entries, num_hidden_layers is 32"),
              std::string::npos);
    EXPECT_NE(refusal_as("qwen3", R"("layer_types": ["chunked_attention"])")
                  .find("layer_types is \"chunked_attention\""),
              std::string::npos);
}

TEST(model_config, mistral_slides_in_every_layer_unless_its_window_is_null) {
    const model_config missing = parsed_as("mistral", "");
    EXPECT_EQ(missing.intermediate, 14336);
    EXPECT_EQ(missing.kv_heads, 8);
    EXPECT_EQ(missing.context_tokens_max, 131072);
    EXPECT_EQ(missing.eos_tokens, std::vector<storage::token_id>{2});
    for (const layer_config& layer : missing.layers) EXPECT_EQ(layer.window, 4096);
    for (const layer_config& layer : parsed_as("mistral", R"("sliding_window": null)").layers)
        EXPECT_EQ(layer.window, 0);
    EXPECT_EQ(parsed_as("mistral", R"("sliding_window": 1000)").layers[0].window, 1000);
    EXPECT_EQ(parsed_as("mistral", R"("hidden_size": 5120, "head_dim": 128)").head_dim, 128);
}

TEST(model_config, qwen3_moe_reads_its_experts_in_either_spelling) {
    const model_config missing = parsed_as("qwen3_moe", "");
    EXPECT_EQ(missing.mixture.experts, 128);
    EXPECT_EQ(missing.mixture.per_token, 8);
    EXPECT_EQ(missing.mixture.intermediate, 768);
    EXPECT_TRUE(missing.mixture.softmax_over_all);
    EXPECT_FALSE(missing.mixture.fused);
    EXPECT_EQ(missing.mixture.shared_intermediate, 0);
    EXPECT_TRUE(missing.qk_norm);
    EXPECT_EQ(missing.layers[0].window, 0);
    EXPECT_FALSE(parsed_as("qwen3_moe", R"("norm_topk_prob": true)").mixture.softmax_over_all);
    for (const char* spelling : {R"("num_experts": 16)", R"("num_local_experts": 16)",
                                 R"("num_experts": 16, "num_local_experts": 16)"})
        EXPECT_EQ(parsed_as("qwen3_moe", spelling).mixture.experts, 16) << spelling;
    EXPECT_NE(refusal_as("qwen3_moe", R"("num_experts": 16, "num_local_experts": 8)")
                  .find("num_local_experts is 8: num_experts is 16"),
              std::string::npos);
    EXPECT_NE(refusal_as("qwen3_moe", R"("num_experts": 4)").find("num_experts_per_tok is missing"),
              std::string::npos);
    EXPECT_NE(refusal_as("qwen3_moe", R"("num_experts": 4, "num_experts_per_tok": 5)")
                  .find("num_experts_per_tok is 5: supported are 1 to 4"),
              std::string::npos);
}

TEST(model_config, qwen3_moe_has_dense_layers_where_it_says_so) {
    const model_config c = parsed_as("qwen3_moe", R"("num_hidden_layers": 6,
        "decoder_sparse_step": 2, "mlp_only_layers": [3])");
    const bool expected[] = {false, true, false, false, false, true};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(c.layers[i].mixture, expected[i]) << i;
    EXPECT_NE(refusal_as("qwen3_moe", R"("num_hidden_layers": 6, "mlp_only_layers": [6])")
                  .find("mlp_only_layers is 6: numbers below num_hidden_layers 6"),
              std::string::npos);
    EXPECT_NE(refusal_as("qwen3_moe", R"("mlp_only_layers": 3)").find("a list is needed"),
              std::string::npos);
    EXPECT_EQ(parsed_as("qwen3_moe", R"("use_sliding_window": true, "sliding_window": 50)")
                  .layers[0]
                  .window,
              50);
}

TEST(model_config, gemma_alternates_windows_and_rope_bases) {
    const model_config c = parsed_as("gemma3_text", R"("rope_scaling": {"rope_type": "linear",
        "factor": 8})");
    ASSERT_EQ(c.layers.size(), 26u);
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const bool full = i % 6 == 5;
        EXPECT_EQ(c.layers[i].window, full ? 0 : 4096) << i;
        EXPECT_EQ(c.layers[i].rope.theta, full ? 1e6 : 1e4) << i;
        EXPECT_EQ(c.layers[i].rope.factor, full ? 8.0 : 1.0) << i;
    }
    EXPECT_EQ(c.head_dim, 256);
    EXPECT_EQ(c.kv_heads, 4);
    EXPECT_EQ(c.attention_scale, 1.0 / 16.0);
    EXPECT_TRUE(c.tied_head && c.qk_norm && c.norm_one_plus && c.post_norms);
    EXPECT_EQ(c.activation, activation_kind::gelu_tanh);
    EXPECT_EQ(c.embedding_scale, 48.0f);
    // sqrt(128) = 11.3137 in bfloat16.
    EXPECT_EQ(parsed_as("gemma3_text", R"("hidden_size": 128, "torch_dtype": "bfloat16")")
                  .embedding_scale,
              11.3125f);
    EXPECT_EQ(c.eos_tokens, (std::vector<token_id>{1}));
    EXPECT_EQ(parsed_as("gemma3_text", R"("sliding_window_pattern": 2)").layers[1].window, 0);
}

TEST(model_config, rope_parameters_may_be_given_for_each_kind_of_layer) {
    const model_config c = parsed_as("gemma3_text", R"("rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 500},
        "sliding_attention": {"rope_type": "default", "rope_theta": 300}})");
    EXPECT_EQ(c.layers[5].rope.theta, 500.0);
    EXPECT_EQ(c.layers[5].rope.factor, 4.0);
    EXPECT_EQ(c.layers[0].rope.theta, 300.0);
    EXPECT_NE(refusal_as("gemma3_text", R"("rope_parameters": {"chunked_attention": {}})")
                  .find("rope_parameters.chunked_attention is"),
              std::string::npos);
    EXPECT_NE(refusal_as("gemma3_text",
                         R"("rope_parameters": {"full_attention": {"rope_type": "dynamic"}})")
                  .find("rope_parameters.full_attention.rope_type is \"dynamic\""),
              std::string::npos);
}

TEST(model_config, a_multimodal_wrapper_gives_its_language_model) {
    const model_config c = parsed_as("gemma3", R"("eos_token_id": [1, 106], "text_config": {
        "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {})");
    EXPECT_EQ(c.family, "gemma3_text");
    EXPECT_EQ(c.hidden, 2560);
    EXPECT_EQ(c.layers[0].window, 1024);
    EXPECT_EQ(c.eos_tokens, (std::vector<token_id>{1, 106}));
    EXPECT_EQ(parsed_as("gemma3", R"("text_config": {"eos_token_id": 7})").eos_tokens,
              (std::vector<token_id>{7}));
    EXPECT_NE(refusal_as("gemma3", R"("text_config": {"final_logit_softcapping": 30.0})")
                  .find("text_config.final_logit_softcapping is"),
              std::string::npos);
    EXPECT_NE(refusal_as("gemma3", R"("text_config": {"hidden_activation": "relu"})")
                  .find("text_config.hidden_activation is \"relu\""),
              std::string::npos);
}

TEST(model_config, gpt_oss_is_a_mixture_with_sinks_and_alternating_windows) {
    const model_config c = parsed_as("gpt_oss", "");
    ASSERT_EQ(c.layers.size(), 36u);
    EXPECT_EQ(c.layers[0].window, 128);
    EXPECT_EQ(c.layers[1].window, 0);
    EXPECT_EQ(c.layers[35].window, 0);
    for (const layer_config& layer : {c.layers[0], c.layers[1]}) {
        EXPECT_EQ(layer.rope.type, rope_parameters::scaling::yarn);
        EXPECT_EQ(layer.rope.theta, 150000.0);
        EXPECT_EQ(layer.rope.factor, 32.0);
        EXPECT_EQ(layer.rope.original_context, 4096.0);
        EXPECT_FALSE(layer.rope.truncate);
    }
    EXPECT_EQ(c.head_dim, 64);
    EXPECT_TRUE(c.qkv_bias && c.o_bias && c.sinks);
    EXPECT_EQ(c.mixture.experts, 128);
    EXPECT_EQ(c.mixture.per_token, 4);
    EXPECT_EQ(c.mixture.intermediate, 2880);
    EXPECT_EQ(c.activation, activation_kind::swiglu_clamped);
    EXPECT_EQ(c.activation_limit, 7.0f);
    EXPECT_EQ(parsed_as("gpt_oss", R"("quantization_config": {"quant_method": "mxfp4"})")
                  .quantization.how,
              matrix_quantization::mode::mxfp4);
    EXPECT_NE(refusal_as("gpt_oss", R"("quantization_config": {"quant_method": "gptq"})")
                  .find("quantization_config.quant_method is \"gptq\""),
              std::string::npos);
    EXPECT_NE(refusal_as("gpt_oss", R"("num_local_experts": 4, "num_experts_per_tok": 5)")
                  .find("num_experts_per_tok is 5"),
              std::string::npos);
    EXPECT_NE(refusal_as("gpt_oss", R"("num_local_experts": 4097)").find("num_local_experts is"),
              std::string::npos);
}

// DeepSeek-V2-Lite as published; what it leaves out is the config class's.
constexpr const char* deepseek_lite = R"("hidden_size": 2048, "intermediate_size": 10944,
    "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
    "num_key_value_heads": 16, "n_shared_experts": 2, "n_routed_experts": 64,
    "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    "q_lora_rank": null, "max_position_embeddings": 163840, "scoring_func": "softmax",
    "topk_method": "greedy", "norm_topk_prob": false, "n_group": 1, "topk_group": 1,
    "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                     "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1})";

TEST(model_config, deepseek_v2_lite_has_latents_and_experts_behind_one_dense_layer) {
    const model_config c = parsed_as("deepseek_v2", deepseek_lite);
    EXPECT_EQ(c.latent.rank, 512);
    EXPECT_EQ(c.latent.query_rank, 0);
    EXPECT_EQ(c.latent.plain_dim, 128);
    EXPECT_EQ(c.latent.rope_dim, 64);
    EXPECT_EQ(c.latent.value_dim, 128);
    EXPECT_EQ(c.kv_heads, 1);
    EXPECT_EQ(c.query_width(), 16 * 192);
    EXPECT_EQ(c.value_width(), 16 * 128);
    EXPECT_EQ(c.mixture.experts, 64);
    EXPECT_EQ(c.mixture.per_token, 6);
    EXPECT_EQ(c.mixture.intermediate, 1408);
    EXPECT_EQ(c.mixture.shared_intermediate, 2816);
    EXPECT_TRUE(c.mixture.softmax_over_all);
    EXPECT_FALSE(c.mixture.fused);
    ASSERT_EQ(c.layers.size(), 27u);
    EXPECT_FALSE(c.layers[0].mixture);
    EXPECT_TRUE(c.layers[1].mixture && c.layers[26].mixture);
    EXPECT_EQ(c.layers[0].rope.amplitude, 1.0);
    const double sharpened = 0.1 * 0.707 * std::log(40.0) + 1.0;
    EXPECT_NEAR(c.attention_scale, sharpened * sharpened / std::sqrt(192.0), 1e-12);
    EXPECT_EQ(default_kv(c).bits, 8);
    // The seeds' way to keep expanded keys and values would take 16 * (192 + 128) elements a layer.
    EXPECT_EQ(make_kv_layout(c, {8, 64}, 256).bytes_per_token(), 27u * (576 + 9 * 4));
    EXPECT_EQ(make_kv_layout(c, {4, 64}, 256).bytes_per_token(), 27u * (288 + 9 * 4));
}

TEST(model_config, keys_with_a_bias_are_kept_at_8_bits_where_nobody_chose) {
    const model_config qwen = parsed_as("qwen2", "");
    EXPECT_EQ(default_kv(qwen).bits, 8);
    EXPECT_EQ(default_kv(qwen).why, "its keys have a bias");
    const model_config biased = parsed(R"("attention_bias": true)");
    EXPECT_EQ(default_kv(biased).bits, 8);
    for (const char* family : {"llama", "qwen3"}) {
        EXPECT_EQ(default_kv(parsed_as(family, "")).bits, 4) << family;
        EXPECT_EQ(default_kv(parsed_as(family, "")).why, "") << family;
    }
}

TEST(model_config, deepseek_v2_takes_its_own_defaults) {
    const model_config c = parsed_as("deepseek_v2", R"("num_experts_per_tok": 6)");
    EXPECT_EQ(c.vocabulary, 102400);
    EXPECT_EQ(c.layers.size(), 32u);
    EXPECT_EQ(c.latent.rank, 512);
    EXPECT_EQ(c.latent.query_rank, 1536);
    EXPECT_EQ(c.mixture.experts, 64);
    EXPECT_EQ(c.mixture.intermediate, 1407);
    EXPECT_EQ(c.mixture.shared_intermediate, 2 * 1407);
    EXPECT_EQ(c.mixture.groups, 1);
    EXPECT_TRUE(c.layers[0].mixture);
    EXPECT_EQ(c.eos_tokens, (std::vector<token_id>{2}));
    EXPECT_NEAR(c.attention_scale, 1.0 / std::sqrt(192.0), 1e-12);
    const model_config alone =
        parsed_as("deepseek_v2",
                  R"("num_experts_per_tok": 6, "n_shared_experts": null, "moe_layer_freq": 2)");
    EXPECT_EQ(alone.mixture.shared_intermediate, 0);
    EXPECT_TRUE(alone.layers[2].mixture && !alone.layers[3].mixture);
    const model_config groups =
        parsed_as("deepseek_v2", R"("num_experts_per_tok": 6, "topk_method": "group_limited_greedy",
                          "n_group": 8, "topk_group": 3, "attention_bias": true)");
    EXPECT_EQ(groups.mixture.groups, 8);
    EXPECT_EQ(groups.mixture.groups_per_token, 3);
    EXPECT_TRUE(groups.qkv_bias && groups.o_bias);
    // Odd sizes fill whole groups of the cache.
    const model_config odd = parsed_as("deepseek_v2", R"("num_experts_per_tok": 6,
        "kv_lora_rank": 96, "qk_rope_head_dim": 32, "num_hidden_layers": 1)");
    const storage::kv_layout layout = make_kv_layout(odd, {4, 64}, 256);
    EXPECT_EQ(layout.k(0).dim, 192);
    EXPECT_EQ(layout.v(0).dim, 128);
}

TEST(model_config, unsupported_deepseek_values_are_refused_by_name) {
    const std::pair<const char*, const char*> cases[] = {
        {R"("kv_lora_rank": 4097)", "kv_lora_rank is 4097"},
        {R"("q_lora_rank": 0)", "q_lora_rank is 0"},
        {R"("qk_rope_head_dim": 63)", "qk_rope_head_dim is 63"},
        {R"("qk_nope_head_dim": 1025)", "qk_nope_head_dim is 1025"},
        {R"("num_key_value_heads": 4)", "num_key_value_heads is 4"},
        {R"("scoring_func": "sigmoid")", "scoring_func is \"sigmoid\""},
        {R"("topk_method": "noaux_tc")", "topk_method is \"noaux_tc\""},
        {R"("norm_topk_prob": true)", "norm_topk_prob is true"},
        {R"("n_routed_experts": 5)", "num_experts_per_tok is 6"},
        {R"("topk_method": "group_limited_greedy", "n_group": 7)", "n_group is 7"},
        {R"("topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 9)",
         "topk_group is 9"},
        {R"("topk_method": "group_limited_greedy", "n_group": 16, "topk_group": 1)",
         "num_experts_per_tok is 6"},
        {R"("hidden_act": "gelu")", "hidden_act is \"gelu\""},
    };
    for (const auto& [fields, said] : cases) {
        const std::string text =
            refusal_as("deepseek_v2", std::string(R"("num_experts_per_tok": 6, )") + fields);
        EXPECT_NE(text.find(said), std::string::npos) << fields << " gave: " << text;
    }
    EXPECT_NE(refusal_as("deepseek_v2", R"("hidden_size": 2048)").find("num_experts_per_tok"),
              std::string::npos);
}

TEST(model_config, broken_json_is_refused) {
    for (const char* text : {"", "{", "[]", "{\"model_type\": \"llama\"} x"}) {
        EXPECT_FALSE(model_config::parse(text)) << text;
    }
}

TEST(model_config, mlx_quantisation_is_read_from_either_spelling) {
    EXPECT_EQ(parsed(R"("quantization": {"group_size": 64, "bits": 8})").quantization.bits, 8);
    EXPECT_EQ(parsed(R"("quantization_config": {"group_size": 64, "bits": 4})").quantization.bits,
              4);
    EXPECT_EQ(parsed(R"("quantization": {"group_size": 64, "bits": 4, "mode": "affine"},
                        "quantization_config": {"group_size": 64, "bits": 4})")
                  .quantization.bits,
              4);
}

TEST(model_config, single_matrices_may_be_quantised_otherwise) {
    const model_config c = parsed(
        R"("quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4", "lm_head": true,
           "model.layers.0.self_attn.q_proj": {"group_size": 64, "bits": 8},
           "model.embed_tokens": false, "vision_tower.x": {"bits": 3}})");
    using mode = matrix_quantization::mode;
    EXPECT_EQ(c.quantization, (matrix_quantization{mode::mxfp4, 4}));
    EXPECT_EQ(c.quantization_for("lm_head"), c.quantization);
    EXPECT_EQ(c.quantization_for("model.layers.0.self_attn.q_proj"),
              (matrix_quantization{mode::affine, 8}));
    EXPECT_EQ(c.quantization_for("model.embed_tokens").how, mode::none);
    const std::string q = R"("quantization": {"bits": 4, )";
    EXPECT_NE(refusal(q + R"("lm_head": {"bits": 6}})").find("quantization.lm_head.bits is 6"),
              std::string::npos);
    EXPECT_NE(refusal(q + R"("lm_head": {"group_size": 32}})")
                  .find("quantization.lm_head.group_size is 32"),
              std::string::npos);
    EXPECT_NE(refusal(R"("quantization": {"bits": 8, "mode": "mxfp4"})").find("bits is 8"),
              std::string::npos);
    EXPECT_NE(refusal(R"("quantization": {"mode": "nvfp4"})").find("mode is \"nvfp4\""),
              std::string::npos);
}

TEST(model_config, stop_tokens_come_from_both_files_once) {
    EXPECT_EQ(parsed(R"("eos_token_id": 7)").eos_tokens, (std::vector<token_id>{7}));
    EXPECT_EQ(parsed(R"("eos_token_id": [7, 8, 7])", R"({"eos_token_id": [8, 9]})").eos_tokens,
              (std::vector<token_id>{7, 8, 9}));
    EXPECT_EQ(parsed("", R"({"eos_token_id": 5})").eos_tokens, (std::vector<token_id>{5}));
    EXPECT_TRUE(parsed(R"("eos_token_id": null)").eos_tokens.empty());
    EXPECT_NE(refusal("", R"({"eos_token_id": -1})").find("generation_config.json: eos_token_id"),
              std::string::npos);
}

TEST(model_config, sampling_that_the_makers_switch_off_with_zeros_is_read) {
    const model_config c =
        parsed("", R"({"do_sample": true, "temperature": 0.0, "top_k": 0, "min_p": 0.0})");
    EXPECT_EQ(c.sampling.temperature, 0.0f);
    EXPECT_EQ(c.sampling.top_k, 0);
    EXPECT_EQ(c.sampling.min_p, 0.0f);
    EXPECT_NE(refusal("", R"({"do_sample": true, "min_p": -0.1})").find("min_p"),
              std::string::npos);
    EXPECT_NE(refusal("", R"({"do_sample": true, "min_p": 1.1})").find("min_p"), std::string::npos);
}

TEST(model_config, a_missing_folder_is_named) {
    auto config = model_config::load("/nonexistent/model");
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().code, errc::not_found);
    EXPECT_NE(config.error().what.find("/nonexistent/model/config.json"), std::string::npos);
}

TEST(model_config, the_embedded_model_loads_and_gives_its_kv_geometry) {
    auto config = model_config::load(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny");
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->hidden, 384);
    EXPECT_EQ(config->kv_heads, 2);
    EXPECT_EQ(config->quantization.bits, 4);
    EXPECT_TRUE(config->tied_head);
    const storage::kv_layout layout = make_kv_layout(*config, {4, 64}, 256);
    EXPECT_EQ(layout.layer_count(), 8);
    EXPECT_EQ(layout.bytes_per_token(), 1152u);  // MODEL_CARD.md: 1.125 KiB in 4 bits
}

}  // namespace
}  // namespace semantic::engine

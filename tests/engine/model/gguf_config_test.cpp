// SPDX-License-Identifier: Apache-2.0
// What a GGUF's metadata says about a model, and what is refused of it, by the name of the key or
// tensor.

#include "engine/model/config/gguf_config.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/weights.hpp"
#include "tests/engine/model/gguf_twin.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::errc;
using storage::gguf_type;
using storage::gguf_value_type;
using tests::gguf_writer;
using tests::model_twin;

storage::result<model_config> config_of(const gguf_writer& file) {
    const tests::temp_dir dir;
    tests::write_bytes(dir / "model.gguf", file.bytes());
    return model_config::load(dir / "model.gguf");
}

std::string refusal(const gguf_writer& file) {
    const auto config = config_of(file);
    if (config) return "taken";
    EXPECT_EQ(config.error().code, errc::incompatible);
    return config.error().what;
}

gguf_writer llama() { return tests::gguf_of(tests::random_twin("llama", gguf_type::f32)); }

TEST(gguf_config, is_the_published_config_of_every_architecture) {
    for (const char* family :
         {"llama", "qwen2", "qwen3", "qwen3_moe", "gemma3_text", "gpt_oss", "deepseek_v2"}) {
        const model_twin twin = tests::random_twin(family, gguf_type::f32);
        const auto read = config_of(tests::gguf_of(twin));
        const auto published = model_config::parse(boost::json::serialize(twin.config));
        ASSERT_TRUE(read) << read.error().what;
        ASSERT_TRUE(published) << published.error().what;
        EXPECT_EQ(read->family, published->family);
        EXPECT_EQ(read->hidden, published->hidden);
        EXPECT_EQ(read->intermediate, published->intermediate);
        EXPECT_EQ(read->heads, published->heads);
        EXPECT_EQ(read->kv_heads, published->kv_heads);
        EXPECT_EQ(read->head_dim, published->head_dim);
        EXPECT_EQ(read->vocabulary, published->vocabulary);
        EXPECT_EQ(read->context_tokens_max, published->context_tokens_max);
        EXPECT_EQ(read->norm_eps, published->norm_eps);
        EXPECT_EQ(read->tied_head, published->tied_head);
        EXPECT_EQ(read->qkv_bias, published->qkv_bias) << family;
        EXPECT_EQ(read->embedding_scale, published->embedding_scale);
        EXPECT_EQ(read->attention_scale, published->attention_scale) << family;
        EXPECT_EQ(read->mixture.experts, published->mixture.experts);
        EXPECT_EQ(read->mixture.per_token, published->mixture.per_token);
        EXPECT_EQ(read->mixture.softmax_over_all, published->mixture.softmax_over_all);
        EXPECT_EQ(read->mixture.scale, published->mixture.scale);
        EXPECT_EQ(read->latent.rank, published->latent.rank);
        EXPECT_EQ(read->latent.plain_dim, published->latent.plain_dim);
        ASSERT_EQ(read->layers.size(), published->layers.size());
        for (std::size_t i = 0; i < read->layers.size(); ++i) {
            EXPECT_EQ(read->layers[i].window, published->layers[i].window) << family << i;
            EXPECT_EQ(read->layers[i].mixture, published->layers[i].mixture) << family << i;
            EXPECT_EQ(read->layers[i].rope, published->layers[i].rope) << family << i;
        }
    }
}

TEST(gguf_config, norms_hold_their_whole_factor) {
    const auto config =
        config_of(tests::gguf_of(tests::random_twin("gemma3_text", gguf_type::f32)));
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_FALSE(config->norm_one_plus);
}

TEST(gguf_config, tokens_that_end_a_turn_are_those_of_the_metadata) {
    gguf_writer file = llama();
    file.pair("tokenizer.ggml.eos_token_id", 2u);
    file.pair("tokenizer.ggml.eot_token_id", 7u);
    file.pair("tokenizer.ggml.eom_token_id", 159u);
    const auto config = config_of(file);
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->eos_tokens, (std::vector<storage::token_id>{2, 7, 159}));
}

TEST(gguf_config, sampling_that_the_makers_prefer_is_taken) {
    gguf_writer file = llama();
    file.pair("general.sampling.temp", gguf_value_type::f32, gguf_writer::raw(0.25f));
    file.pair("general.sampling.top_k", gguf_value_type::i32, gguf_writer::raw(std::int32_t{17}));
    file.pair("general.sampling.top_p", gguf_value_type::f32, gguf_writer::raw(0.5f));
    const auto config = config_of(file);
    ASSERT_TRUE(config) << config.error().what;
    EXPECT_EQ(config->sampling.temperature, 0.25f);
    EXPECT_EQ(config->sampling.top_k, 17);
    EXPECT_EQ(config->sampling.top_p, 0.5f);
}

struct refused_case {
    const char* name;
    std::function<void(gguf_writer&)> change;  // of a sound file
    const char* says;
};

void add_u32(gguf_writer& file, const char* key, std::uint32_t value) { file.pair(key, value); }
void add_f32(gguf_writer& file, const char* key, float value) {
    file.pair(key, gguf_value_type::f32, gguf_writer::raw(value));
}

const refused_case refused_cases[] = {
    {"a_partial_rotation", [](gguf_writer& f) { add_u32(f, "llama.rope.dimension_count", 32); },
     "llama.rope.dimension_count"},
    {"rope_scaled_in_an_unknown_way",
     [](gguf_writer& f) { f.pair("llama.rope.scaling.type", "longrope"); },
     "llama.rope.scaling.type is \"longrope\": supported are none, linear and yarn"},
    {"factors_for_two_lengths",
     [](gguf_writer& f) { f.tensor("rope_factors_long.weight", {32}, 0, std::string(128, '\0')); },
     "rope_factors_long.weight"},
    {"factors_of_another_length",
     [](gguf_writer& f) { f.tensor("rope_freqs.weight", {31}, 0, std::string(124, '\0')); },
     "rope_freqs.weight does not hold 32"},
    {"factors_of_nothing",
     [](gguf_writer& f) { f.tensor("rope_freqs.weight", {32}, 0, std::string(128, '\0')); },
     "rope_freqs.weight holds 0.000000"},
    {"a_mixture_where_there_is_none", [](gguf_writer& f) { add_u32(f, "llama.expert_count", 8); },
     "llama.expert_count is 8"},
    {"no_generator",
     [](gguf_writer& f) {
         f.pair("llama.attention.causal", gguf_value_type::boolean, std::string(1, '\0'));
     },
     "llama.attention.causal is false"},
    {"a_scale_of_logits", [](gguf_writer& f) { add_f32(f, "llama.logit_scale", 0.5f); },
     "llama.logit_scale"},
    {"a_stop_outside_of_the_vocabulary",
     [](gguf_writer& f) { add_u32(f, "tokenizer.ggml.eos_token_id", 160); },
     "tokenizer.ggml.eos_token_id"},
    {"a_factor_that_is_no_number",
     [](gguf_writer& f) {
         f.pair("llama.rope.scaling.type", "linear");
         f.pair("llama.rope.scaling.factor", "8");
     },
     "llama.rope.scaling.factor is no finite number"},
    {"a_boolean_that_is_a_number", [](gguf_writer& f) { add_u32(f, "llama.attention.causal", 1); },
     "llama.attention.causal is no boolean"},
};

TEST(gguf_config, what_is_not_computed_is_refused_by_its_key) {
    for (const refused_case& each : refused_cases) {
        gguf_writer file = llama();
        each.change(file);
        const std::string got = refusal(file);
        EXPECT_NE(got.find(each.says), got.npos) << each.name << ": " << got;
    }
}

TEST(gguf_config, a_hybrid_none_of_whose_layers_attends_is_refused_by_its_architecture) {
    const auto refusal_at = [](std::uint32_t attention_every) {
        gguf_writer file;
        file.pair("general.architecture", "qwen35");
        const std::pair<const char*, std::uint32_t> numbers[] = {
            {"block_count", 3},
            {"context_length", 256},
            {"embedding_length", 64},
            {"attention.head_count", 4},
            {"attention.head_count_kv", 2},
            {"attention.key_length", 16},
            {"attention.value_length", 16},
            {"feed_forward_length", 128},
            {"ssm.time_step_rank", 2},
            {"ssm.inner_size", 64},
            {"ssm.group_count", 2},
            {"ssm.state_size", 32},
            {"ssm.conv_kernel", 4},
            {"rope.dimension_count", 8},
            {"full_attention_interval", attention_every}};
        for (const auto& [key, value] : numbers)
            add_u32(file, ("qwen35." + std::string(key)).c_str(), value);
        add_f32(file, "qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
        file.tensor("token_embd.weight", {64, 40}, 0, std::string(64 * 40 * 4, '\0'));
        return refusal(file);
    };
    EXPECT_EQ(refusal_at(3), "taken");
    const std::string got = refusal_at(4);
    EXPECT_NE(got.find("none of the 3 layers of this qwen3_5_text attends"), got.npos) << got;
}

TEST(gguf_config, an_unknown_architecture_is_refused_with_the_known_ones) {
    gguf_writer file;
    file.pair("general.architecture", "mamba");
    const std::string got = refusal(file);
    EXPECT_NE(got.find("general.architecture is \"mamba\": supported are llama, qwen2, qwen3, "
                       "qwen3moe, gemma3, gemma4, gpt-oss, deepseek2"),
              got.npos)
        << got;
    EXPECT_NE(refusal(gguf_writer()).find("general.architecture is missing"), std::string::npos);
}

TEST(gguf_config, a_known_architecture_that_does_not_run_is_refused_with_what_it_lacks) {
    gguf_writer file;
    file.pair("general.architecture", "gemma3n");
    const std::string got = refusal(file);
    EXPECT_NE(
        got.find("general.architecture is \"gemma3n\": its AltUp streams, LAuReL branches and "
                 "sparse gates are not computed; supported are llama, qwen2, qwen3, "),
        got.npos)
        << got;
}

TEST(gguf_config, what_is_missing_is_named) {
    gguf_writer file;
    file.pair("general.architecture", "llama");
    EXPECT_NE(refusal(file).find("there is no matrix token_embd.weight"), std::string::npos);
    file.tensor("token_embd.weight", {64, 32}, 0, std::string(4 * 64 * 32, '\0'));
    EXPECT_NE(refusal(file).find("llama.embedding_length is missing"), std::string::npos);
}

TEST(gguf_config, values_that_no_model_has_are_named_as_in_a_config) {
    model_twin twin = tests::random_twin("llama", gguf_type::f32);
    twin.config["num_hidden_layers"] = 5000;
    const std::string got = refusal(tests::gguf_of(twin));
    EXPECT_NE(got.find("num_hidden_layers is 5000"), got.npos) << got;
}

TEST(gguf_config, a_file_that_is_not_there_is_named) {
    const auto config = model_config::load("/nowhere/at/all.gguf");
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().code, errc::not_found);
    EXPECT_NE(config.error().what.find("/nowhere/at/all.gguf"), std::string::npos);
}

std::string weights_refusal(const gguf_writer& file) {
    const tests::temp_dir dir;
    tests::write_bytes(dir / "model.gguf", file.bytes());
    const auto config = model_config::load(dir / "model.gguf");
    if (!config) return config.error().what;
    const auto weights = model_weights::load(dir / "model.gguf", *config, *find_kernels("auto"),
                                             weight_form::native, {});
    return weights ? "taken" : weights.error().what;
}

TEST(gguf_weights, a_tensor_that_is_missing_is_named) {
    model_twin twin = tests::random_twin("llama", gguf_type::f32);
    twin.tensors.erase("model.layers.1.mlp.up_proj.weight");
    const std::string got = weights_refusal(tests::gguf_of(twin));
    EXPECT_NE(got.find("model.layers.1.mlp.up_proj.weight"), got.npos) << got;
}

TEST(gguf_weights, a_tensor_that_would_be_left_out_is_refused) {
    gguf_writer unknown = llama();
    unknown.tensor("blk.0.attn_extra.weight", {4}, 0, std::string(16, '\0'));
    EXPECT_NE(weights_refusal(unknown).find("blk.0.attn_extra.weight"), std::string::npos);
    gguf_writer layer = llama();
    layer.tensor("blk.9.attn_norm.weight", {256}, 0, std::string(1024, '\0'));
    EXPECT_NE(weights_refusal(layer).find("tensor blk.9.attn_norm.weight has no place"),
              std::string::npos);
    gguf_writer bias = llama();
    bias.tensor("blk.0.ffn_up.bias", {512}, 0, std::string(2048, '\0'));
    EXPECT_NE(weights_refusal(bias).find("blk.0.ffn_up.bias has no place"), std::string::npos);
}

TEST(gguf_weights, a_tensor_of_another_shape_is_named_as_the_file_names_it) {
    model_twin twin = tests::random_twin("llama", gguf_type::f32);
    twin.tensors["model.norm.weight"].shape = {255};
    twin.tensors["model.norm.weight"].values.resize(255);
    const std::string got = weights_refusal(tests::gguf_of(twin));
    EXPECT_NE(got.find("tensor output_norm.weight has shape [255], the metadata asks for [256]"),
              got.npos)
        << got;
}

TEST(gguf_weights, a_type_that_is_not_read_is_refused_by_name) {
    gguf_writer file = llama();
    file.tensor("blk.0.attn_q_norm.weight", {256}, 16, std::string(66, '\0'));
    const std::string got = weights_refusal(file);
    EXPECT_NE(got.find("blk.0.attn_q_norm.weight has type IQ2_XXS: supported are F32"), got.npos)
        << got;
}

}  // namespace
}  // namespace semantic::engine

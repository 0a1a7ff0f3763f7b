// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::dtype;
using storage::errc;

struct tensor {
    dtype type = dtype::f32;
    std::vector<std::int64_t> shape;
    std::string bytes;
};
using tensors = std::map<std::string, tensor>;

tensor filled(dtype type, std::vector<std::int64_t> shape, int seed = 1) {
    const auto count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::string bytes(static_cast<std::size_t>(count) * storage::dtype_bytes(type), '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>((i * 7 + static_cast<std::size_t>(seed) * 13) % 60);
    }
    return {type, std::move(shape), std::move(bytes)};
}

/// A one-layer Llama: hidden 64, one head of 64, 128 inner units, vocabulary 40.
tensors tiny_tensors(dtype type = dtype::f32) {
    tensors all;
    const auto layer = [](const char* name) {
        return std::string("model.layers.0.") + name + ".weight";
    };
    all["model.embed_tokens.weight"] = filled(type, {40, 64});
    all[layer("input_layernorm")] = filled(type, {64});
    for (const char* name :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}) {
        all[layer(name)] = filled(type, {64, 64});
    }
    all[layer("post_attention_layernorm")] = filled(type, {64});
    all[layer("mlp.gate_proj")] = filled(type, {128, 64});
    all[layer("mlp.up_proj")] = filled(type, {128, 64});
    all[layer("mlp.down_proj")] = filled(type, {64, 128});
    all["model.norm.weight"] = filled(type, {64});
    all["lm_head.weight"] = filled(type, {40, 64});
    return all;
}

model_config tiny_config(const std::string& more = "") {
    auto config = model_config::parse(
        R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1, "vocab_size": 40,
            "intermediate_size": 128, "num_hidden_layers": 1)" +
        more + "}");
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return *config;
}

void write(const std::string& path, const tensors& all) {
    std::vector<storage::tensor_to_write> list;
    for (const auto& [name, t] : all)
        list.push_back({name, t.type, t.shape, std::as_bytes(std::span(t.bytes))});
    std::ofstream out(path, std::ios::binary);
    out << storage::safetensors_header(list, {});
    for (const auto& [name, t] : all) out << t.bytes;
}

storage::result<model_weights> load(const std::string& directory,
                                    const model_config& config = tiny_config(),
                                    weight_form form = weight_form::native,
                                    const weights_progress& progress = {}) {
    return model_weights::load(directory, config, *find_kernels("auto"), form, progress);
}

/// What loading says about `all` as one file.
std::string complaint(const tensors& all, const model_config& config = tiny_config()) {
    tests::temp_dir dir;
    write(dir / "model.safetensors", all);
    auto weights = load(dir.path(), config);
    return weights ? "(loaded)" : weights.error().what;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(model_weights, every_float_type_loads_into_its_own_kind) {
    const std::pair<dtype, weight_kind> kinds[] = {{dtype::f32, weight_kind::f32},
                                                   {dtype::f16, weight_kind::f16},
                                                   {dtype::bf16, weight_kind::bf16}};
    for (const auto& [type, kind] : kinds) {
        tests::temp_dir dir;
        write(dir / "model.safetensors", tiny_tensors(type));
        auto weights = load(dir.path());
        ASSERT_TRUE(weights) << weights.error().what;
        EXPECT_EQ(weights->head.kind, kind);
        EXPECT_EQ(weights->layers[0].mlp.gate.matrix.rows, 128);
        EXPECT_EQ(weights->layers[0].mlp.gate.matrix.cols, 64);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weights->layers[0].o.matrix.data) % 64, 0u);
        EXPECT_EQ(weights->final_norm.size(), 64u);
    }
}

TEST(model_weights, a_tied_head_is_the_embedding) {
    tests::temp_dir dir;
    tensors all = tiny_tensors();
    all.erase("lm_head.weight");
    write(dir / "model.safetensors", all);
    auto weights = load(dir.path(), tiny_config(R"(, "tie_word_embeddings": true)"));
    ASSERT_TRUE(weights) << weights.error().what;
    EXPECT_EQ(weights->head.data, weights->embedding.data);
}

// Of a multimodal model, in the spellings before and since transformers 4.52; its vision tower is
// nobody's business.
TEST(model_weights, a_language_model_inside_a_multimodal_one_is_found) {
    for (const bool newer : {false, true}) {
        tensors all;
        all["vision_tower.post_layernorm.weight"] = filled(dtype::f32, {32});
        for (auto& [name, t] : tiny_tensors()) {
            const bool head = name.starts_with("lm_head");
            all[newer ? head ? name : "model.language_model" + name.substr(5)
                      : "language_model." + name] = t;
        }
        EXPECT_EQ(complaint(all), "(loaded)");
    }
}

TEST(model_weights, biases_are_read_where_the_config_has_them) {
    tensors all = tiny_tensors();
    const model_config config = tiny_config(R"(, "attention_bias": true)");
    expect_parts(complaint(all, config),
                 {"model.layers.0.self_attn.q_proj.bias", "[64]", "missing"});
    for (const char* name : {"q", "k", "v", "o"}) {
        all[std::string("model.layers.0.self_attn.") + name + "_proj.bias"] =
            filled(dtype::f32, {64});
    }
    EXPECT_EQ(complaint(all, config), "(loaded)");
}

TEST(model_weights, a_missing_tensor_is_named_with_the_shape_it_should_have) {
    tensors all = tiny_tensors();
    all.erase("model.layers.0.mlp.down_proj.weight");
    expect_parts(complaint(all), {"model.layers.0.mlp.down_proj.weight", "[64, 128]", "missing",
                                  "model.safetensors"});
}

TEST(model_weights, a_mis_shaped_tensor_is_named_with_both_shapes) {
    tensors all = tiny_tensors();
    all["model.layers.0.self_attn.k_proj.weight"] = filled(dtype::f32, {32, 64});
    expect_parts(complaint(all),
                 {"model.layers.0.self_attn.k_proj.weight", "[32, 64]", "[64, 64]"});
}

TEST(model_weights, a_wrong_type_is_named_with_the_right_ones) {
    tensors all = tiny_tensors();
    all["model.layers.0.mlp.up_proj.weight"] = filled(dtype::i32, {128, 64});
    expect_parts(complaint(all), {"model.layers.0.mlp.up_proj.weight", "I32", "BF16"});
    all = tiny_tensors();
    all["model.norm.weight"] = filled(dtype::u8, {64});
    expect_parts(complaint(all), {"model.norm.weight", "U8"});
}

TEST(model_weights, a_truncated_file_is_named) {
    tests::temp_dir dir;
    write(dir / "model.safetensors", tiny_tensors());
    std::ifstream file(dir / "model.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    bytes.resize(bytes.size() - 1);
    std::ofstream(dir / "model.safetensors", std::ios::binary) << bytes;
    auto weights = load(dir.path());
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, errc::corrupt);
    expect_parts(weights.error().what, {dir / "model.safetensors"});
}

TEST(model_weights, a_folder_without_weights_says_so) {
    tests::temp_dir dir;
    auto weights = load(dir.path());
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, errc::not_found);
}

/// Splits the tiny model over two files; `common` is put into both.
void write_shards(const tests::temp_dir& dir, const std::string& common = "") {
    tensors first, second;
    for (auto& [name, t] : tiny_tensors()) (name < "model.layers.0.p" ? first : second)[name] = t;
    if (!common.empty()) first[common] = second[common] = tiny_tensors()[common];
    write(dir / "a.safetensors", first);
    write(dir / "b.safetensors", second);
}

TEST(model_weights, shards_load_with_and_without_an_index) {
    tests::temp_dir dir;
    write_shards(dir);
    ASSERT_TRUE(load(dir.path()));
    write(dir / "unrelated.safetensors", {{"other", filled(dtype::f32, {4})}});
    std::ofstream(dir / "model.safetensors.index.json")
        << R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})";
    ASSERT_TRUE(load(dir.path()));
    std::ofstream(dir / "model.safetensors.index.json")
        << R"({"weight_map": {"x": "a.safetensors", "y": "c.safetensors"}})";
    auto weights = load(dir.path());
    ASSERT_FALSE(weights);
    expect_parts(weights.error().what, {"c.safetensors"});
}

TEST(model_weights, a_tensor_in_two_files_is_corrupt) {
    tests::temp_dir dir;
    write_shards(dir, "model.norm.weight");
    auto weights = load(dir.path());
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, errc::corrupt);
    expect_parts(weights.error().what, {"model.norm.weight", "a.safetensors", "b.safetensors"});
}

TEST(model_weights, an_index_cannot_lead_out_of_the_folder) {
    for (const char* name : {R"("../a.safetensors")", R"("/etc/passwd")", R"("")", "1"}) {
        const auto files =
            parse_weight_index(std::string(R"({"weight_map": {"x": )") + name + "}}");
        ASSERT_FALSE(files) << name;
        EXPECT_EQ(files.error().code, errc::corrupt);
    }
    EXPECT_FALSE(parse_weight_index("{}"));
    EXPECT_FALSE(parse_weight_index(R"({"weight_map": {}})"));
}

/// The tiny model with one matrix quantised to 4 bits.
tensors with_mlx(dtype scale_type) {
    tensors all = tiny_tensors();
    const std::string name = "model.layers.0.mlp.down_proj";
    all[name + ".weight"] = filled(dtype::u32, {64, 128 * 4 / 32});
    all[name + ".scales"] = filled(scale_type, {64, 2});
    all[name + ".biases"] = filled(scale_type, {64, 2});
    return all;
}

TEST(model_weights, quantised_matrices_may_stand_beside_float_ones) {
    const model_config config = tiny_config(R"(, "quantization": {"group_size": 64, "bits": 4})");
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32}) {
        tests::temp_dir dir;
        write(dir / "model.safetensors", with_mlx(type));
        auto weights = load(dir.path(), config);
        ASSERT_TRUE(weights) << weights.error().what;
        EXPECT_EQ(weights->layers[0].mlp.down.matrix.kind, weight_kind::q4);
        EXPECT_EQ(weights->layers[0].mlp.up.matrix.kind, weight_kind::f32);
    }
}

TEST(model_weights, broken_quantised_triples_are_named) {
    const model_config config = tiny_config(R"(, "quantization": {"group_size": 64, "bits": 4})");
    const std::string name = "model.layers.0.mlp.down_proj";
    tensors all = with_mlx(dtype::f16);
    all.erase(name + ".biases");
    expect_parts(complaint(all, config), {name + ".biases", "[64, 2]", "missing"});
    all = with_mlx(dtype::f16);
    all[name + ".weight"] = filled(dtype::u32, {64, 32});  // 8 bits under a config of 4
    expect_parts(complaint(all, config), {name + ".weight", "[64, 32]", "[64, 16]"});
    all = with_mlx(dtype::f16);
    all[name + ".biases"] = filled(dtype::f32, {64, 2});
    expect_parts(complaint(all, config), {name + ".biases", "F32", "F16"});
    // Without "quantization" in the config the words are no weights.
    expect_parts(complaint(with_mlx(dtype::f16)), {name + ".weight", "[64, 16]", "[64, 128]"});
}

/// A one-layer GPT-OSS of three experts, in floats or with experts in MXFP4.
tensors tiny_mixture(bool mxfp4) {
    tensors all = tiny_tensors();
    const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";
    std::erase_if(all, [&](const auto& each) { return each.first.starts_with(mlp); });
    for (const char* name : {"q", "k", "v", "o"}) {
        all[attention + name + "_proj.bias"] = filled(dtype::f32, {64});
    }
    all[attention + "sinks"] = filled(dtype::f32, {1});
    all[mlp + "router.weight"] = filled(dtype::f32, {3, 64});
    all[mlp + "router.bias"] = filled(dtype::f32, {3});
    all[mlp + "experts.gate_up_proj_bias"] = filled(dtype::f32, {3, 256});
    all[mlp + "experts.down_proj_bias"] = filled(dtype::f32, {3, 64});
    if (mxfp4) {
        all[mlp + "experts.gate_up_proj_blocks"] = filled(dtype::u8, {3, 256, 2, 16});
        all[mlp + "experts.gate_up_proj_scales"] = filled(dtype::u8, {3, 256, 2});
        all[mlp + "experts.down_proj_blocks"] = filled(dtype::u8, {3, 64, 4, 16});
        all[mlp + "experts.down_proj_scales"] = filled(dtype::u8, {3, 64, 4});
    } else {
        all[mlp + "experts.gate_up_proj"] = filled(dtype::f32, {3, 64, 256});
        all[mlp + "experts.down_proj"] = filled(dtype::f32, {3, 128, 64});
    }
    return all;
}

model_config tiny_mixture_config() {
    auto config = model_config::parse(
        R"({"model_type": "gpt_oss", "hidden_size": 64, "num_attention_heads": 1, "head_dim": 64,
            "num_key_value_heads": 1, "vocab_size": 40, "intermediate_size": 128,
            "num_hidden_layers": 1, "num_local_experts": 3, "num_experts_per_tok": 2})");
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return *config;
}

// Element (row, column) of an expert's gate is (column, 2 row) of the tensor, of its up
// (column, 2 row + 1).
TEST(model_weights, fused_experts_are_taken_apart) {
    tests::temp_dir dir;
    tensors all = tiny_mixture(false);
    tensor& fused = all["model.layers.0.mlp.experts.gate_up_proj"];
    std::vector<float> values(3 * 64 * 256);
    std::iota(values.begin(), values.end(), 0.0f);
    std::memcpy(fused.bytes.data(), values.data(), fused.bytes.size());
    write(dir / "model.safetensors", all);
    auto weights = load(dir.path(), tiny_mixture_config());
    ASSERT_TRUE(weights) << weights.error().what;
    const gated_weights& expert = weights->layers[0].experts[2];
    std::vector<float> row(64);
    const kernel_table& kernels = *find_kernels("scalar");
    for (const int r : {0, 17, 127}) {
        for (const bool up : {false, true}) {
            kernels.embed_row((up ? expert.up : expert.gate).matrix, r, row.data());
            for (const int c : {0, 5, 63}) {
                EXPECT_EQ(row[static_cast<std::size_t>(c)],
                          static_cast<float>(2 * 64 * 256 + c * 256 + 2 * r + up));
            }
        }
    }
}

TEST(model_weights, mxfp4_experts_stay_packed_and_broken_ones_are_named) {
    const model_config config = tiny_mixture_config();
    tests::temp_dir dir;
    write(dir / "model.safetensors", tiny_mixture(true));
    auto weights = load(dir.path(), config);
    ASSERT_TRUE(weights) << weights.error().what;
    EXPECT_EQ(weights->layers[0].experts[1].up.matrix.kind, weight_kind::mxfp4);
    EXPECT_EQ(weights->layers[0].router.matrix.kind, weight_kind::f32);
    const std::string name = "model.layers.0.mlp.experts.down_proj";
    tensors all = tiny_mixture(true);
    all.erase(name + "_scales");
    expect_parts(complaint(all, config), {name + "_scales", "[3, 64, 4]", "missing"});
    all = tiny_mixture(true);
    all[name + "_blocks"] = filled(dtype::u8, {3, 64, 3, 16});
    expect_parts(complaint(all, config), {name + "_blocks", "[3, 64, 3, 16]", "[3, 64, 4, 16]"});
    all = tiny_mixture(true);
    all[name + "_scales"] = filled(dtype::i32, {3, 64, 4});
    expect_parts(complaint(all, config), {name + "_scales", "I32", "U8"});
    all = tiny_mixture(false);
    all[name] = filled(dtype::f32, {2, 128, 64});
    expect_parts(complaint(all, config), {name, "[2, 128, 64]", "[3, 128, 64]"});
}

enum class latent_weights { f32, mlx, mlx_stacked };

/// A two-layer DeepSeek-V2: two heads of 64 + 32 and 64, a latent of 64, three experts of 64 in the
/// second layer.
tensors tiny_latent(latent_weights kind) {
    tensors all = tiny_tensors();
    const auto put = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
        if (kind == latent_weights::f32) {
            all[name + ".weight"] = filled(dtype::f32, {rows, cols});
            return;
        }
        all[name + ".weight"] = filled(dtype::u32, {rows, cols * 8 / 32});
        all[name + ".scales"] = filled(dtype::f16, {rows, cols / 64});
        all[name + ".biases"] = filled(dtype::f16, {rows, cols / 64}, 2);
    };
    std::erase_if(all, [](const auto& each) { return each.first.starts_with("model.layers."); });
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
        all[layer + "input_layernorm.weight"] = filled(dtype::f32, {64});
        all[layer + "post_attention_layernorm.weight"] = filled(dtype::f32, {64});
        put(layer + "self_attn.q_a_proj", 128, 64);
        all[layer + "self_attn.q_a_layernorm.weight"] = filled(dtype::f32, {128});
        put(layer + "self_attn.q_b_proj", 192, 128);
        put(layer + "self_attn.kv_a_proj_with_mqa", 96, 64);
        all[layer + "self_attn.kv_a_layernorm.weight"] = filled(dtype::f32, {64});
        put(layer + "self_attn.kv_b_proj", 256, 64);
        put(layer + "self_attn.o_proj", 64, 128);
    }
    const auto gated = [&](const std::string& prefix, std::int64_t inner) {
        put(prefix + "gate_proj", inner, 64);
        put(prefix + "up_proj", inner, 64);
        put(prefix + "down_proj", 64, inner);
    };
    gated("model.layers.0.mlp.", 128);
    const std::string mixture = "model.layers.1.mlp.";
    all[mixture + "gate.weight"] = filled(dtype::f32, {3, 64});
    gated(mixture + "shared_experts.", 128);
    if (kind != latent_weights::mlx_stacked) {
        for (const char* expert : {"0.", "1.", "2."}) gated(mixture + "experts." + expert, 64);
        return all;
    }
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        all[mixture + "switch_mlp." + name + ".weight"] = filled(dtype::u32, {3, 64, 16});
        all[mixture + "switch_mlp." + name + ".scales"] = filled(dtype::f16, {3, 64, 1});
        all[mixture + "switch_mlp." + name + ".biases"] = filled(dtype::f16, {3, 64, 1}, 2);
    }
    return all;
}

model_config tiny_latent_config(bool mlx) {
    auto config = model_config::parse(
        std::string(mlx ? R"({"quantization": {"group_size": 64, "bits": 8}, )" : "{") +
        R"("model_type": "deepseek_v2", "hidden_size": 64, "num_attention_heads": 2,
           "vocab_size": 40, "intermediate_size": 128, "num_hidden_layers": 2,
           "q_lora_rank": 128, "kv_lora_rank": 64, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
           "v_head_dim": 64, "first_k_dense_replace": 1, "n_routed_experts": 3,
           "num_experts_per_tok": 2, "moe_intermediate_size": 64})");
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return *config;
}

// Element (row, column) of a head's k_up is (column, row) of its rows in kv_b_proj; its v_up are
// the rows after those.
TEST(model_weights, expansions_of_the_latent_are_taken_apart_by_head) {
    tests::temp_dir dir;
    tensors all = tiny_latent(latent_weights::f32);
    tensor& both = all["model.layers.1.self_attn.kv_b_proj.weight"];
    std::vector<float> values(256 * 64);
    std::iota(values.begin(), values.end(), 0.0f);
    std::memcpy(both.bytes.data(), values.data(), both.bytes.size());
    write(dir / "model.safetensors", all);
    auto weights = load(dir.path(), tiny_latent_config(false));
    ASSERT_TRUE(weights) << weights.error().what;
    const layer_weights& layer = weights->layers[1];
    ASSERT_EQ(layer.k_up.size(), 2u);
    std::vector<float> row(64);
    const kernel_table& kernels = *find_kernels("scalar");
    for (const int r : {0, 17, 63}) {
        kernels.embed_row(layer.k_up[1], r, row.data());
        for (const int c : {0, 5, 63})
            EXPECT_EQ(row[static_cast<std::size_t>(c)], static_cast<float>((128 + c) * 64 + r));
        kernels.embed_row(layer.v_up[1], r, row.data());
        for (const int c : {0, 5, 63})
            EXPECT_EQ(row[static_cast<std::size_t>(c)], static_cast<float>((192 + r) * 64 + c));
    }
    EXPECT_TRUE(weights->layers[0].experts.empty());
    EXPECT_EQ(layer.experts.size(), 3u);
    EXPECT_EQ(layer.mlp.gate.matrix.rows, 128);
    all.erase("model.layers.1.mlp.experts.2.up_proj.weight");
    expect_parts(complaint(all, tiny_latent_config(false)),
                 {"model.layers.1.mlp.experts.2.up_proj.weight", "[64, 64]", "missing"});
    all = tiny_latent(latent_weights::f32);
    all["model.layers.0.self_attn.kv_b_proj.weight"] = filled(dtype::f32, {192, 64});
    expect_parts(complaint(all, tiny_latent_config(false)),
                 {"kv_b_proj.weight", "[192, 64]", "[256, 64]"});
}

// The transposed half of a quantised kv_b_proj cannot stay quantised; the other half does.
TEST(model_weights, quantised_expansions_of_the_latent_are_unpacked_where_they_are_transposed) {
    std::vector<float> stacked(64), apart(64);
    for (const bool stack : {false, true}) {
        tests::temp_dir dir;
        const tensors all = tiny_latent(stack ? latent_weights::mlx_stacked : latent_weights::mlx);
        write(dir / "model.safetensors", all);
        auto weights = load(dir.path(), tiny_latent_config(true));
        ASSERT_TRUE(weights) << weights.error().what;
        const layer_weights& layer = weights->layers[1];
        EXPECT_EQ(layer.k_up[0].kind, weight_kind::f16);
        EXPECT_EQ(layer.v_up[0].kind, weight_kind::q8);
        EXPECT_EQ(layer.experts[2].down.matrix.kind, weight_kind::q8);
        const std::string name = "model.layers.1.self_attn.kv_b_proj.";
        const auto at = [&](const char* part, int row) {
            half bits;
            std::memcpy(&bits, all.at(name + part).bytes.data() + 2 * row, sizeof bits);
            return to_float(bits);
        };
        const kernel_table& kernels = *find_kernels("scalar");
        std::vector<float> row(64);
        for (const int r : {0, 33}) {
            kernels.embed_row(layer.k_up[1], r, row.data());
            for (const int c : {0, 63}) {
                const auto q = static_cast<unsigned char>(
                    all.at(name + "weight").bytes[static_cast<std::size_t>((128 + c) * 64 + r)]);
                const float exact =
                    std::fma(at("scales", 128 + c), static_cast<float>(q), at("biases", 128 + c));
                EXPECT_EQ(row[static_cast<std::size_t>(c)], to_float(to_half(exact)));
            }
        }
        kernels.embed_row(layer.experts[0].up.matrix, 3, (stack ? stacked : apart).data());
    }
    EXPECT_EQ(stacked, apart);
}

TEST(model_weights, one_changed_byte_changes_the_hash) {
    tests::temp_dir dir;
    tensors all = tiny_tensors();
    write(dir / "model.safetensors", all);
    const auto before = load(dir.path())->hash();
    EXPECT_EQ(load(dir.path())->hash(), before);
    all["lm_head.weight"].bytes.back() ^= 1;
    write(dir / "model.safetensors", all);
    EXPECT_NE(load(dir.path())->hash(), before);
}

TEST(model_weights, progress_runs_up_to_one) {
    tests::temp_dir dir;
    write(dir / "model.safetensors", tiny_tensors());
    std::vector<double> seen;
    ASSERT_TRUE(load(dir.path(), tiny_config(), weight_form::native,
                     [&](double x, const auto&) { seen.push_back(x); }));
    ASSERT_FALSE(seen.empty());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(seen.back(), 1.0);
}

TEST(model_weights, progress_tells_the_files_apart) {
    tests::temp_dir dir;
    tensors all = tiny_tensors(), first;
    for (const char* name : {"model.embed_tokens.weight", "model.norm.weight"})
        first.insert(all.extract(name));
    write(dir / "model-1.safetensors", first);
    write(dir / "model-2.safetensors", all);
    std::vector<file_progress> last;
    ASSERT_TRUE(load(dir.path(), tiny_config(), weight_form::native,
                     [&](double, const auto& files) { last = files; }));
    ASSERT_EQ(last.size(), 2u);
    EXPECT_EQ(last[0].name, "model-1.safetensors");
    EXPECT_EQ(last[1].name, "model-2.safetensors");
    for (const file_progress& file : last) EXPECT_EQ(file.fraction, 1.0);
}

TEST(model_weights, a_value_that_quantised_weights_cannot_hold_is_named) {
    tensors all = tiny_tensors();
    for (const float bad : {65505.0f, std::numeric_limits<float>::quiet_NaN()}) {
        std::memcpy(all["lm_head.weight"].bytes.data() + 400, &bad, sizeof bad);
        tests::temp_dir dir;
        write(dir / "model.safetensors", all);
        const auto weights = load(dir.path(), tiny_config(), weight_form::q4);
        ASSERT_FALSE(weights);
        EXPECT_EQ(weights.error().code, errc::incompatible);
        expect_parts(weights.error().what, {"lm_head.weight", bad > 0 ? "65505" : "nan"});
        EXPECT_TRUE(load(dir.path(), tiny_config()));
    }
    const float most = 65504.0f;
    std::memcpy(all["lm_head.weight"].bytes.data() + 400, &most, sizeof most);
    tests::temp_dir dir;
    write(dir / "model.safetensors", all);
    EXPECT_TRUE(load(dir.path(), tiny_config(), weight_form::q4));
}

std::size_t peak_bytes() {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;) {
        std::size_t kib = 0;
        if (word == "VmHWM:" && file >> kib) return kib * 1024;
    }
    return 0;
}

// Goal: a model is never in memory twice. Method: the peak over what was there before, against 1.1
// times the packed size plus the source bytes that packing tasks have in flight; both copies at
// once would be 2.0 times.
TEST(model_weights, loading_holds_the_weights_once) {
    tests::temp_dir dir;
    const int vocabulary = 128 * 1024;
    {
        tensors all = tiny_tensors();
        all["model.embed_tokens.weight"] = filled(dtype::f32, {vocabulary, 64});
        all["lm_head.weight"] = filled(dtype::f32, {vocabulary, 64});
        for (const char* name : {"gate_proj", "up_proj"}) {
            all[std::string("model.layers.0.mlp.") + name + ".weight"] =
                filled(dtype::f32, {vocabulary, 64});
        }
        all["model.layers.0.mlp.down_proj.weight"] = filled(dtype::f32, {64, vocabulary});
        write(dir / "model.safetensors", all);
    }
    model_config config = tiny_config();
    config.vocabulary = config.intermediate = vocabulary;
    std::ofstream("/proc/self/clear_refs") << "5";  // forget the peak so far
    const std::size_t before = peak_bytes();
    if (before == 0) GTEST_SKIP() << "skipped: the system does not tell the peak memory";
    auto weights = load(dir.path(), config);
    ASSERT_TRUE(weights) << weights.error().what;
    const std::size_t peak = peak_bytes() - before;
    std::printf("    packed %zu MiB, peak %zu MiB more than before\n",
                std::size_t{weights->bytes()} >> 20, peak >> 20);
    EXPECT_LE(peak, weights->bytes() * 11 / 10 + (32u << 20));
}

}  // namespace
}  // namespace semantic::engine

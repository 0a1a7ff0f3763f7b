// SPDX-License-Identifier: Apache-2.0
// A GGUF gives what the folder of the same weights gives: every architecture, every type of tensor,
// and both ways in which files lay out what they differ in.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/model/gguf_twin.hpp"
#include "tests/engine/model/loaded_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::gguf_type;
using storage::token_id;
using tests::loaded_model;
using tests::model_twin;

std::vector<float> logits_of(const std::string& model, int vocabulary) {
    tests::model_run run;
    run.folder = model;
    run.pool_tokens = 256;
    loaded_model loaded(run);
    if (!loaded) return {};
    std::vector<token_id> tokens;
    for (int i = 0; i < 80; ++i) tokens.push_back((i * 37 + 11) % vocabulary);
    const auto sequence = loaded.new_sequence();
    return loaded.logits(*sequence, tokens, 48);
}

/// Root mean square of the difference over the spread of the expected.
double error_of(const std::vector<float>& got, const std::vector<float>& expected) {
    EXPECT_EQ(got.size(), expected.size());
    EXPECT_FALSE(expected.empty());
    if (got.size() != expected.size() || got.empty()) return 1.0;
    double sum = 0.0, squares = 0.0, difference = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double right = expected[i];
        sum += right;
        squares += right * right;
        difference += (got[i] - right) * (got[i] - right);
    }
    const auto count = static_cast<double>(got.size());
    const double mean = sum / count;
    return std::sqrt(difference / count / (squares / count - mean * mean));
}

double twin_error(const model_twin& twin) {
    const tests::temp_dir dir;
    tests::write_folder(twin, dir.path());
    tests::write_bytes(dir / "twin.gguf", tests::gguf_of(twin).bytes());
    const int vocabulary = twin.config.at("vocab_size").to_number<int>();
    return error_of(logits_of(dir / "twin.gguf", vocabulary), logits_of(dir.path(), vocabulary));
}

constexpr const char* families[] = {"llama",       "qwen2",   "qwen3",      "qwen3_moe",
                                    "gemma3_text", "gpt_oss", "deepseek_v2"};
constexpr gguf_type types[] = {
    gguf_type::f32,  gguf_type::f16,    gguf_type::bf16,   gguf_type::q8_0,
    gguf_type::q4_0, gguf_type::q4_1,   gguf_type::q5_0,   gguf_type::q5_1,
    gguf_type::q2_k, gguf_type::q3_k,   gguf_type::q4_k,   gguf_type::q5_k,
    gguf_type::q6_k, gguf_type::iq4_nl, gguf_type::iq4_xs, gguf_type::mxfp4};

class gguf_model : public testing::TestWithParam<std::tuple<const char*, gguf_type>> {};

TEST_P(gguf_model, gives_the_logits_of_the_same_weights_as_f32_safetensors) {
    const auto [family, type] = GetParam();
    const bool floats = type == gguf_type::f32 || type == gguf_type::f16 || type == gguf_type::bf16;
    // As for golden models: arithmetic on 16-bit products, and on activations of 8 bits.
    EXPECT_LE(twin_error(tests::random_twin(family, type)), floats ? 0.01 : 0.025);
}

INSTANTIATE_TEST_SUITE_P(twins, gguf_model,
                         testing::Combine(testing::ValuesIn(families), testing::ValuesIn(types)),
                         [](const auto& one) {
                             return std::string(std::get<0>(one.param)) + "_" +
                                    storage::find_block_size(std::get<1>(one.param))->name;
                         });

TEST(gguf_layouts, latent_expansions_in_one_tensor_are_read_as_those_apart) {
    for (const gguf_type type : {gguf_type::f32, gguf_type::q4_k}) {
        model_twin twin = tests::random_twin("deepseek_v2", type);
        twin.latent_apart = false;
        EXPECT_LE(twin_error(twin), type == gguf_type::f32 ? 0.01 : 0.025);
    }
}

TEST(gguf_layouts, gates_and_ups_in_one_tensor_are_read_as_those_apart) {
    for (const char* family : {"qwen3_moe", "deepseek_v2"}) {
        model_twin twin = tests::random_twin(family, gguf_type::q6_k);
        twin.gate_up_merged = true;
        EXPECT_LE(twin_error(twin), 0.025) << family;
    }
}

/// Published folders that transformers gave logits for: what their GGUF gives.
TEST(gguf_layouts, golden_models_give_as_gguf_what_their_folders_give) {
    for (const char* name :
         {"llama31", "mistral", "smollm2", "qwen25", "qwen3", "qwen3moe", "gemma3", "deepseek2"}) {
        const std::string folder = std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + name;
        const model_twin twin = tests::published_twin(folder);
        const tests::temp_dir dir;
        tests::write_bytes(dir / "golden.gguf", tests::gguf_of(twin).bytes());
        const int vocabulary = twin.config.at("vocab_size").to_number<int>();
        EXPECT_LE(
            error_of(logits_of(dir / "golden.gguf", vocabulary), logits_of(folder, vocabulary)),
            0.01)
            << name;
    }
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// --weights: matrices that are quantised while a model loads.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/model/weights/weights.hpp"
#include "storage/files/safetensors.hpp"
#include "tests/engine/model/loaded_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::dtype;
using storage::token_id;
using tests::loaded_model;

std::string golden(const std::string& name) {
    return SEMANTIC_SOURCE_DIR "/tests/golden/models/" + name;
}

std::vector<token_id> some_tokens(int count) {
    std::vector<token_id> ids;
    std::uint32_t seed = 5;
    for (int i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        ids.push_back(static_cast<token_id>((seed >> 8) % 448u));
    }
    return ids;
}

std::vector<float> logits(const std::string& folder, weight_form form, int chunk = 300,
                          int threads = 1, int kv_bits = 16) {
    tests::model_run run;
    run.folder = folder;
    run.kv_bits = kv_bits;
    run.threads = threads;
    run.weights = form;
    loaded_model model(run);
    if (!model) return {};
    const auto sequence = model.new_sequence();
    return model.logits(*sequence, some_tokens(300), chunk);
}

/// Root mean square of the difference over the standard deviation of `wanted`.
double relative_error(const std::vector<float>& got, const std::vector<float>& wanted) {
    EXPECT_EQ(got.size(), wanted.size());
    if (got.size() != wanted.size()) return 1.0;
    double difference = 0.0, sum = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double want = wanted[i], off = got[i] - want;
        difference += off * off;
        sum += want;
        squares += want * want;
    }
    const auto n = static_cast<double>(got.size());
    return std::sqrt(difference / n) / std::sqrt(squares / n - sum / n * (sum / n));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && !a.empty() &&
           std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct form_case {
    const char* model;
    weight_form form;
    double error_max;
    friend void PrintTo(const form_case& c, std::ostream* out) {
        *out << c.model << ' ' << to_string(c.form);
    }
};

class quantised_load : public testing::TestWithParam<form_case> {};

// Goal: what quantising costs is what its grid costs. Bound: a weight is off by up to half a step,
// 1 / sqrt(12) of one as root mean square; 64 normal weights reach over 4.7 of their deviations, so
// a step is 4.7 / 15 (4 bit) or 4.7 / 255 (8 bit) of it, and a product over one matrix is off by 9
// % or 0.53 % of its spread. One after the other, a logit passes the embedding, the head and, in
// each layer, q·k, v·o and gate·up·down: with the 7 matrices of each of L layers at their full
// share sqrt(2 + 7 L) times that, for L = 4 at most 50 % or 2.9 %; int8 activations add the 2.5 %
// that models published quantised are allowed.
TEST_P(quantised_load, keeps_the_logits_near_the_native_ones) {
    const form_case& c = GetParam();
    const auto native = logits(golden(c.model), weight_form::native);
    const double error = relative_error(logits(golden(c.model), c.form), native);
    std::printf("    %-10s %s: %.2f %%\n", c.model, to_string(c.form), 100 * error);
    EXPECT_LE(error, c.error_max);
    EXPECT_GT(error, 0.0);
}

TEST_P(quantised_load, keeps_logits_free_of_chunks_and_threads) {
    const form_case& c = GetParam();
    const auto whole = logits(golden(c.model), c.form, 300, 1, 4);
    EXPECT_TRUE(same_bits(whole, logits(golden(c.model), c.form, 7, 2, 4)));
    EXPECT_TRUE(same_bits(whole, logits(golden(c.model), c.form, 1, 1, 4)));
}

INSTANTIATE_TEST_SUITE_P(models, quantised_load,
                         testing::Values(form_case{"llama31", weight_form::q8, 0.05},
                                         form_case{"llama31", weight_form::q4, 0.5},
                                         form_case{"smollm2", weight_form::q8, 0.05},
                                         form_case{"mlx-8bit", weight_form::q4, 0.5},
                                         form_case{"gptoss", weight_form::q8, 0.05},
                                         form_case{"gptoss", weight_form::q4, 0.5},
                                         form_case{"deepseek2", weight_form::q8, 0.05},
                                         form_case{"deepseek2", weight_form::q4, 0.5}),
                         [](const auto& each) {
                             std::string name =
                                 std::string(each.param.model) + "_" + to_string(each.param.form);
                             for (char& c : name) c = c == '-' ? '_' : c;
                             return name;
                         });

/// A tensor to write, with the bytes it owns.
struct owned_tensor {
    std::string name;
    dtype type;
    std::vector<std::int64_t> shape;
    std::string bytes;
};

/// The MLX triple of a float matrix, by the rule of the golden vectors.
void add_quantised(const std::string& name, const storage::tensor_view& from, int bits,
                   std::vector<owned_tensor>& out) {
    const std::int64_t rows = from.shape[0], cols = from.shape[1];
    const auto count = static_cast<std::size_t>(rows * cols);
    std::vector<float> values(count);
    std::memcpy(values.data(), from.bytes.data(), from.bytes.size());
    std::string words(count * static_cast<std::size_t>(bits) / 8, '\0');
    std::vector<half> scales(count / 64), biases(count / 64);
    find_kernels("scalar")->quantize_kv(
        values.data(), static_cast<int>(count), bits, kv_rounding::mlx,
        reinterpret_cast<std::byte*>(words.data()), scales.data(), biases.data());
    const auto bytes = [](const std::vector<half>& numbers) {
        return std::string(reinterpret_cast<const char*>(numbers.data()),
                           numbers.size() * sizeof(half));
    };
    const std::string base = name.substr(0, name.rfind(".weight"));
    out.push_back({name, dtype::u32, {rows, cols * bits / 32}, words});
    out.push_back({base + ".scales", dtype::f16, {rows, cols / 64}, bytes(scales)});
    out.push_back({base + ".biases", dtype::f16, {rows, cols / 64}, bytes(biases)});
}

/// Writes an F32 model as an MLX converter would publish it.
void publish_quantised(const std::string& from, const std::string& to, int bits) {
    auto file = storage::safetensors_file::open(from + "/model.safetensors");
    ASSERT_TRUE(file);
    std::vector<owned_tensor> all;
    for (const auto& [name, view] : file->view().tensors) {
        if (view.shape.size() == 2) {
            add_quantised(name, view, bits, all);
        } else {
            all.push_back(
                {name, view.type, view.shape,
                 std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size())});
        }
    }
    std::vector<storage::tensor_to_write> list;
    for (const owned_tensor& t : all)
        list.push_back({t.name, t.type, t.shape, std::as_bytes(std::span(t.bytes))});
    std::ofstream out(to + "/model.safetensors", std::ios::binary);
    out << storage::safetensors_header(list, {});
    for (const owned_tensor& t : all) out << t.bytes;
    std::ifstream stream(from + "/config.json");
    const std::string text((std::istreambuf_iterator<char>(stream)),
                           std::istreambuf_iterator<char>());
    boost::json::value config = boost::json::parse(text);
    config.as_object()["quantization"] = {{"group_size", 64}, {"bits", bits}};
    std::ofstream(to + "/config.json") << boost::json::serialize(config);
}

TEST(quantised_load, gives_the_bits_of_the_model_published_quantised) {
    for (const auto& [form, bits] : {std::pair{weight_form::q8, 8}, {weight_form::q4, 4}}) {
        tests::temp_dir dir;
        publish_quantised(golden("smollm2"), dir.path(), bits);
        EXPECT_TRUE(
            same_bits(logits(golden("smollm2"), form), logits(dir.path(), weight_form::native)))
            << to_string(form);
    }
}

model_weights load(const std::string& name, weight_form form) {
    auto config = model_config::load(golden(name));
    EXPECT_TRUE(config);
    auto weights = model_weights::load(golden(name), *config, *find_kernels("auto"), form, {});
    EXPECT_TRUE(weights) << (weights ? "" : weights.error().what);
    return std::move(*weights);
}

TEST(quantised_load, leaves_what_is_packed_as_tightly_alone) {
    const auto published = load("mlx-4bit", weight_form::native);
    for (const weight_form form : {weight_form::q8, weight_form::q4}) {
        const auto same = load("mlx-4bit", form);
        EXPECT_EQ(same.head.kind, weight_kind::q4);
        EXPECT_EQ(same.hash(), published.hash());  // so agents' memory stays valid
    }
    const auto experts = load("gptoss-mxfp4", weight_form::q4);
    EXPECT_EQ(experts.layers[0].experts[0].gate.matrix.kind, weight_kind::mxfp4);
    EXPECT_EQ(experts.layers[0].q.matrix.kind, weight_kind::q4);
    EXPECT_EQ(experts.layers[0].router.matrix.kind, weight_kind::bf16);
}

TEST(quantised_load, changes_the_hash_with_the_form) {
    const auto native = load("smollm2", weight_form::native).hash();
    const auto q8 = load("smollm2", weight_form::q8).hash();
    const auto q4 = load("smollm2", weight_form::q4).hash();
    EXPECT_NE(native, q8);
    EXPECT_NE(native, q4);
    EXPECT_NE(q8, q4);
}

TEST(quantised_load, takes_a_quarter_of_16_bit_weights) {
    const auto native = load("llama31", weight_form::native), q4 = load("llama31", weight_form::q4);
    // 4 bits and two f16 in 64 weights are 4.5 bits of 16.
    EXPECT_NEAR(static_cast<double>(q4.bytes()) / static_cast<double>(native.bytes()), 4.5 / 16,
                0.001);
}

}  // namespace
}  // namespace semantic::engine

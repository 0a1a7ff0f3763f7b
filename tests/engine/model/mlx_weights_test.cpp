// SPDX-License-Identifier: Apache-2.0
// GPT-OSS as MLX publishes it: other tensor names, MXFP4 in words, settings for single matrices.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "tests/engine/model/loaded_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::dtype;
using storage::token_id;

struct owned_tensor {
    dtype type = dtype::u8;
    std::vector<std::int64_t> shape;
    std::string bytes;
};
using owned_tensors = std::map<std::string, owned_tensor>;

const std::string published = SEMANTIC_SOURCE_DIR "/tests/golden/models/gptoss-mxfp4";

owned_tensors read_tensors() {
    auto file = storage::safetensors_file::open(published + "/model.safetensors");
    EXPECT_TRUE(file);
    owned_tensors all;
    for (const auto& [name, view] : file->view().tensors) {
        all[name] = {
            view.type, view.shape,
            std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size())};
    }
    return all;
}

/// Every second row of dimension 1, from `turn` on.
owned_tensor take_turn(const owned_tensor& from, std::size_t turn) {
    owned_tensor out = from;
    out.shape[1] /= 2;
    const auto rows = static_cast<std::size_t>(from.shape[0] * from.shape[1]);
    const std::size_t each = from.bytes.size() / rows;
    out.bytes.clear();
    for (std::size_t row = turn; row < rows; row += 2)
        out.bytes += from.bytes.substr(row * each, each);
    return out;
}

/// blocks [.., n, 16] as words [.., 4 n]: the same bytes.
owned_tensor as_words(owned_tensor blocks) {
    blocks.type = dtype::u32;
    blocks.shape.pop_back();
    blocks.shape.back() *= 4;
    return blocks;
}

/// The published tensors under the names of MLX.
owned_tensors converted() {
    owned_tensors out;
    for (auto& [name, tensor] : read_tensors()) {
        const std::size_t at = name.find("experts.");
        const auto ends = [&name = name](const char* ending) { return name.ends_with(ending); };
        if (at == name.npos) {
            out[name] = tensor;
            continue;
        }
        const std::string to = name.substr(0, at + std::strlen("experts."));
        const bool fused = name.find("gate_up_proj") != name.npos;
        const std::string suffix = ends("_blocks")   ? ".weight"
                                   : ends("_scales") ? ".scales"
                                                     : ".bias";
        const owned_tensor whole = ends("_blocks") ? as_words(tensor) : tensor;
        if (fused) {
            out[to + "gate_proj" + suffix] = take_turn(whole, 0);
            out[to + "up_proj" + suffix] = take_turn(whole, 1);
        } else {
            out[to + "down_proj" + suffix] = whole;
        }
    }
    return out;
}

/// An F16-scaled 8-bit triple in place of a BF16 matrix: its values are not kept.
void quantise_to_8_bit(owned_tensors& all, const std::string& name) {
    owned_tensor& matrix = all.at(name + ".weight");
    const std::int64_t rows = matrix.shape[0], cols = matrix.shape[1];
    const auto groups = static_cast<std::size_t>(rows * cols / 64);
    matrix = {dtype::u32, {rows, cols / 4}, std::string(groups * 64, '\x41')};
    all[name + ".scales"] = {dtype::f16, {rows, cols / 64}, std::string(groups * 2, '\x01')};
    all[name + ".biases"] = all.at(name + ".scales");
}

void write(const std::string& folder, const owned_tensors& all, const std::string& quantization) {
    std::vector<storage::tensor_to_write> list;
    for (const auto& [name, t] : all)
        list.push_back({name, t.type, t.shape, std::as_bytes(std::span(t.bytes))});
    std::ofstream out(folder + "/model.safetensors", std::ios::binary);
    out << storage::safetensors_header(list, {});
    for (const auto& [name, t] : all) out << t.bytes;
    std::ifstream file(published + "/config.json");
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    boost::json::value config = boost::json::parse(text);
    config.as_object().erase("quantization_config");
    config.as_object()["quantization"] = boost::json::parse(quantization);
    std::ofstream(folder + "/config.json") << boost::json::serialize(config);
}

std::vector<float> logits(const std::string& folder) {
    tests::model_run run;
    run.folder = folder;
    tests::loaded_model model(run);
    if (!model) return {};
    std::vector<token_id> ids;
    for (int i = 0; i < 100; ++i) ids.push_back(i * 37 % 448);
    const auto sequence = model.new_sequence();
    return model.logits(*sequence, ids, 100);
}

std::string complaint(const std::string& folder) {
    auto config = model_config::load(folder);
    if (!config) return config.error().what;
    const auto layout = make_kv_layout(*config, {16, 64}, 256);
    auto model = transformer::load(folder, *config, layout, *find_kernels("auto"), {16, 16},
                                   weight_form::native, {});
    return model ? "(loaded)" : model.error().what;
}

constexpr const char* mxfp4 = R"({"group_size": 32, "bits": 4, "mode": "mxfp4"})";

TEST(mlx_weights, experts_under_the_names_of_mlx_give_the_published_bits) {
    tests::temp_dir dir;
    write(dir.path(), converted(), mxfp4);
    const std::vector<float> want = logits(published), got = logits(dir.path());
    ASSERT_FALSE(want.empty());
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
}

TEST(mlx_weights, single_matrices_are_read_as_the_config_says) {
    tests::temp_dir dir;
    owned_tensors all = converted();
    const std::string q = "model.layers.1.self_attn.q_proj", router = "model.layers.0.mlp.router";
    quantise_to_8_bit(all, q);
    quantise_to_8_bit(all, router);
    const std::string eight = R"({"group_size": 64, "bits": 8})";
    const std::string with_both = R"({"group_size": 32, "bits": 4, "mode": "mxfp4", ")" + q +
                                  "\": " + eight + ", \"" + router + "\": " + eight + "}";
    write(dir.path(), all, with_both);
    EXPECT_EQ(complaint(dir.path()), "(loaded)");
    write(dir.path(), all, mxfp4);  // now config.json says that they are words of MXFP4
    EXPECT_NE(complaint(dir.path()).find(router + ".weight has shape"), std::string::npos)
        << complaint(dir.path());
}

TEST(mlx_weights, a_scale_that_is_not_a_number_is_named) {
    tests::temp_dir dir;
    owned_tensors all = converted();
    const std::string name = "model.layers.2.mlp.experts.up_proj.scales";
    all.at(name).bytes.back() = '\xff';
    write(dir.path(), all, mxfp4);
    const std::string message = complaint(dir.path());
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find("255"), std::string::npos) << message;
    all.at(name).bytes.back() = '\xfe';
    write(dir.path(), all, mxfp4);
    EXPECT_EQ(complaint(dir.path()), "(loaded)");
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Files of hybrids in other types than the golden ones: as floats they give the same bits, and in
// blocks the result of the floats that the blocks encode.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "engine/model/weights/weights.hpp"
#include "tests/engine/model/mixers/hybrid_files.hpp"
#include "tests/engine/model/weights/retyped_gguf.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::gguf_type;
using tests::copy_pair;
using tests::gguf_writer;
using tests::logits_of;
using tests::median_error;
using tests::write_file;

struct hybrid_case {
    const char* name;
    /// The error of blocks against the floats that they encode: the cost of activations of 8 bits.
    /// Where a router is, they are corrected; LFM2's mixer multiplies three products with each
    /// other.
    double error_max;
    friend void PrintTo(const hybrid_case& c, std::ostream* out) { *out << c.name; }
};

class hybrid_gguf : public testing::TestWithParam<std::tuple<hybrid_case, gguf_type>> {};

TEST_P(hybrid_gguf, gives_what_its_weights_as_floats_give) {
    const auto [model, type] = GetParam();
    const std::string golden =
        std::string(SEMANTIC_SOURCE_DIR "/tests/golden/gguf/") + model.name + ".gguf";
    const tests::temp_dir dir;
    const tests::retyped_gguf made = tests::retype(golden, type);
    write_file(dir / "file.gguf", made.blocks);
    write_file(dir / "floats.gguf", made.floats);
    const std::vector<float> got = logits_of(dir / "file.gguf");
    if (type == gguf_type::f32) {
        const std::vector<float> expected = logits_of(golden);
        ASSERT_EQ(got.size(), expected.size());
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
        return;
    }
    const std::vector<float> floats = logits_of(dir / "floats.gguf");
    const double error = median_error(got, floats);
    const double compensated = median_error(logits_of(dir / "file.gguf", true), floats);
    std::printf("    %-20s %s: %.3f %%, compensated %.4f %%\n", model.name,
                storage::find_block_size(type)->name, 100 * error, 100 * compensated);
    EXPECT_LE(error, model.error_max);
    // With what 8 bits lose of activations multiplied too, the blocks give what the floats give.
    EXPECT_LE(compensated, 0.002);
}

// A file of Qwen3.5 counts the layer that predicts the token after the next one as a block.
TEST(hybrid_gguf_layers, that_predict_further_tokens_are_left_out) {
    const std::string golden = SEMANTIC_SOURCE_DIR "/tests/golden/gguf/qwen35.gguf";
    const auto parts = storage::open_gguf(golden);
    ASSERT_TRUE(parts);
    const auto write = [&](const std::string& path, std::uint32_t further) {
        gguf_writer file;
        for (const auto& [key, value] : parts->front().view().metadata)
            if (key != "general.alignment" && key != "qwen35.block_count")
                copy_pair(file, key, value);
        file.pair("qwen35.block_count", std::uint32_t{6});
        file.pair("qwen35.nextn_predict_layers", further);
        for (const auto& [name, tensor] : parts->front().view().tensors)
            file.tensor(name, {tensor.shape.rbegin(), tensor.shape.rend()},
                        static_cast<std::uint32_t>(tensor.type),
                        {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
        for (const char* name : {"blk.5.attn_norm.weight", "blk.5.nextn.enorm.weight"})
            file.tensor(name, {64}, 0, std::string(256, '\0'));
        write_file(path, file.bytes());
    };
    const tests::temp_dir dir;
    write(dir / "with.gguf", 1);
    EXPECT_EQ(logits_of(dir / "with.gguf"), logits_of(golden));
    const auto config = model_config::load(dir / "with.gguf");
    ASSERT_TRUE(config);
    const auto checked = model_weights::check(dir / "with.gguf", *config, weight_form::native);
    ASSERT_TRUE(checked);
    EXPECT_EQ(checked->left_out, (std::vector<std::string>{"mtp.blk.5.attn_norm.weight",
                                                           "mtp.blk.5.nextn.enorm.weight"}));
}

INSTANTIATE_TEST_SUITE_P(
    models, hybrid_gguf,
    testing::Combine(testing::Values(hybrid_case{"lfm2", 0.08}, hybrid_case{"lfm2moe", 0.01},
                                     hybrid_case{"qwen35", 0.05}, hybrid_case{"qwen35moe", 0.01},
                                     hybrid_case{"qwen3next", 0.01},
                                     hybrid_case{"granitehybrid", 0.01},
                                     hybrid_case{"granitehybrid-dense", 0.04},
                                     hybrid_case{"nemotronh", 0.04},
                                     hybrid_case{"nemotronh-moe", 0.01}),
                     testing::Values(gguf_type::f32, gguf_type::q8_0, gguf_type::q4_0)),
    [](const testing::TestParamInfo<std::tuple<hybrid_case, gguf_type>>& each) {
        std::string name = std::string(std::get<0>(each.param).name) + "_" +
                           storage::find_block_size(std::get<1>(each.param))->name;
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    });

}  // namespace
}  // namespace semantic::engine

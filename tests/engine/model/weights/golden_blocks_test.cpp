// SPDX-License-Identifier: Apache-2.0
// Golden models of families without recurrent state as F32, Q8_0 and Q4_K files: F32 gives the bits
// of the golden file, blocks give the logits and greedy answers of their floats, and in Q8_0 nearly
// those of the reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/engine/model/mixers/hybrid_files.hpp"
#include "tests/engine/model/weights/golden_gguf.hpp"
#include "tests/engine/model/weights/golden_reference.hpp"
#include "tests/engine/model/weights/retyped_gguf.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::gguf_type;
using tests::logits_of;
using tests::write_file;

struct block_case {
    const char* name;
    const char* weights;  // the folder that the file was made of
    /// Against the floats of the same blocks, of the logits' spread: what activations of 8 bits
    /// cost. Where a router is, they are corrected.
    double error_max;
    double reference_max;  // of Q8_0 against the reference, which has weights of 16 bits
    /// Of the floats with what 8 bits lose of activations multiplied too; a router may choose other
    /// experts for what is left.
    double compensated_max = 0.0005;
    int ties_max = 2;  // of the 24 tokens of a greedy answer in Q8_0
    friend void PrintTo(const block_case& c, std::ostream* out) { *out << c.name; }
};

class golden_blocks : public testing::TestWithParam<block_case> {
  protected:
    static std::string original() {
        return tests::golden_gguf(std::string(GetParam().name) + ".gguf", GetParam().weights);
    }
    static tests::retyped_gguf made(gguf_type type) { return tests::retype(original(), type); }
    static tests::reference golden_reference() {
        const std::string folder =
            std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + GetParam().weights;
        return tests::reference::load(folder, folder);
    }
    static tests::model_run run_of(const std::string& path) {
        tests::model_run run;
        run.folder = path;
        run.context_tokens = 4096;
        return run;
    }
    void expect_what_floats_give(gguf_type type) {
        const tests::retyped_gguf model = made(type);
        ASSERT_GT(model.matrices, 0);
        write_file(dir / "blocks.gguf", model.blocks);
        write_file(dir / "floats.gguf", model.floats);
        const std::vector<float> floats = logits_of(dir / "floats.gguf");
        const double error = tests::median_error(logits_of(dir / "blocks.gguf"), floats);
        const double compensated =
            tests::median_error(logits_of(dir / "blocks.gguf", true), floats);
        std::printf("    %-14s %s, %d matrices: %.3f %%, compensated %.4f %%\n", GetParam().name,
                    storage::find_block_size(type)->name, model.matrices, 100 * error,
                    100 * compensated);
        EXPECT_LE(error, GetParam().error_max);
        // With what 8 bits lose of activations multiplied too, the blocks give what floats give.
        EXPECT_LE(compensated, GetParam().compensated_max);
    }

    const tests::temp_dir dir;
};

TEST_P(golden_blocks, of_8_bits_give_what_their_floats_give) {
    expect_what_floats_give(gguf_type::q8_0);
}

TEST_P(golden_blocks, of_f32_give_the_bits_of_the_golden_file) {
    write_file(dir / "f32.gguf", made(gguf_type::f32).blocks);
    const std::vector<float> got = logits_of(dir / "f32.gguf"), expected = logits_of(original());
    ASSERT_FALSE(expected.empty());
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
}

// Where rows are no whole super-blocks, matrices are Q4_0, as in a file that llama-quantize makes.
TEST_P(golden_blocks, of_4_bits_give_what_their_floats_give) {
    expect_what_floats_give(gguf_type::q4_k);
}

TEST_P(golden_blocks, of_8_bits_give_the_logits_and_the_greedy_answers_of_the_reference) {
    const tests::reference ref = golden_reference();
    write_file(dir / "blocks.gguf", made(gguf_type::q8_0).blocks);
    tests::loaded_model model(run_of(dir / "blocks.gguf"));
    ASSERT_TRUE(model);
    const auto sequence = model.new_sequence();
    const double error =
        tests::median_error(model.logits(*sequence, ref.input, 512), ref, ref.logits);
    std::printf("    %-14s Q8_0 against the reference: %.3f %%\n", GetParam().name, 100 * error);
    EXPECT_LE(error, GetParam().reference_max);
    for (const tests::greedy_comparison& each : tests::compare_greedy(model, ref)) {
        std::printf("    %-14s %d of %zu greedy tokens equal, worst gap %.3f %%, margin %.3f %%\n",
                    GetParam().name, each.equal, each.count, 100 * each.worst, 100 * each.margin);
        // Few tokens are a tie for Q8_0, and none that is further from one than its error.
        EXPECT_GE(each.equal, static_cast<int>(each.count) - GetParam().ties_max);
        if (each.margin > GetParam().reference_max) {
            EXPECT_EQ(each.equal, static_cast<int>(each.count));
        }
    }
}

// The reference for weights of 4 bits is the model of the floats in its blocks.
TEST_P(golden_blocks, of_4_bits_give_the_greedy_answers_of_their_floats) {
    const tests::retyped_gguf files = made(gguf_type::q4_k);
    write_file(dir / "blocks.gguf", files.blocks);
    write_file(dir / "floats.gguf", files.floats);
    tests::loaded_model floats(run_of(dir / "floats.gguf"));
    ASSERT_TRUE(floats);
    tests::reference ref = golden_reference();
    tests::answer_greedily(floats, ref, 2);
    tests::loaded_model model(run_of(dir / "blocks.gguf"));
    ASSERT_TRUE(model);
    for (const tests::greedy_comparison& each : tests::compare_greedy(model, ref)) {
        std::printf(
            "    %-14s Q4_K: %d of %zu greedy tokens equal, worst gap %.3f %%, margin "
            "%.3f %%\n",
            GetParam().name, each.equal, each.count, 100 * each.worst, 100 * each.margin);
        EXPECT_GE(each.equal, static_cast<int>(each.count) - 2);
        if (each.margin > GetParam().error_max) {
            EXPECT_EQ(each.equal, static_cast<int>(each.count));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    models, golden_blocks,
    testing::Values(
        block_case{"llama32", "llama32", 0.03, 0.05},
        block_case{"olmo2", "olmo2", 0.03, 0.08, 0.0005, 4},
        block_case{"exaone4", "exaone4", 0.03, 0.05}, block_case{"arcee", "arcee", 0.03, 0.05},
        block_case{"smollm3", "smollm3", 0.03, 0.05}, block_case{"granite", "granite", 0.04, 0.06},
        block_case{"olmo3", "olmo3", 0.03, 0.05},
        block_case{"ministral3", "ministral3-published", 0.03, 0.05},
        block_case{"seedoss", "seedoss", 0.03, 0.05}, block_case{"phi3", "phi3", 0.04, 0.05},
        block_case{"glm4moe", "glm4moe", 0.01, 0.05},
        block_case{"glm4moelite", "glm4moelite", 0.01, 0.05},
        block_case{"gemma4", "gemma4-published", 0.04, 0.06},
        block_case{"gemma4-e", "gemma4-e-published", 0.04, 0.06},
        block_case{"gemma4moe", "gemma4moe-published", 0.01, 0.06, 0.004}),
    [](const testing::TestParamInfo<block_case>& each) {
        std::string name = each.param.name;
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    });

}  // namespace
}  // namespace semantic::engine

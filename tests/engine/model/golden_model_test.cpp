// SPDX-License-Identifier: Apache-2.0
// The forward pass against logits and greedy answers that transformers computed in float32
// (tests/golden/README.md).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/engine/model/loaded_model.hpp"
#include "tests/engine/model/weights/golden_gguf.hpp"
#include "tests/engine/model/weights/golden_reference.hpp"

namespace semantic::engine {
namespace {

using storage::token_id;
using tests::loaded_model;
using tests::median_error;
using tests::reference;
using tests::relative_error;

std::string golden(const std::string& name) {
    return SEMANTIC_SOURCE_DIR "/tests/golden/models/" + name;
}

/// A folder, or a GGUF that llama.cpp's converter made of one.
bool is_gguf(const std::string& name) { return name.ends_with(".gguf"); }

struct golden_case {
    const char* name;
    const char* weights;         // whose weights, input and logits it shares
    double error_max;            // rms error over the logits' spread, 16-bit KV
    double error_max_q4 = 0.06;  // 4-bit KV; a token of a mixture may be routed differently
    double error_max_q8 = 0.02;  // 8-bit KV; the same
    double median_max_q8 = 0.0;  // of positions; 0: error_max and 1 %
    friend void PrintTo(const golden_case& c, std::ostream* out) { *out << c.name; }
};

reference reference_of(const golden_case& c) {
    return reference::load(golden(c.weights), golden(is_gguf(c.name) ? c.weights : c.name));
}

tests::model_run run_of(const golden_case& c, int kv_bits) {
    const std::string path =
        is_gguf(c.name) ? tests::golden_gguf(c.name, c.weights) : golden(c.name);
    tests::model_run run{path, is_gguf(c.name) ? "" : golden(c.weights), kv_bits};
    run.context_tokens = 4096;  // as long as the references' own, where a context has a choice
    return run;
}

class golden_model : public testing::TestWithParam<golden_case> {
  protected:
    static double error_at(int kv_bits, bool against_q4) {
        const golden_case& c = GetParam();
        const reference ref = reference_of(c);
        loaded_model model(run_of(c, kv_bits));
        if (!model) return 1.0;
        const auto sequence = model.new_sequence();
        const std::vector<float> all = model.logits(*sequence, ref.input, 512);
        const double error = relative_error(all, ref, against_q4 ? ref.logits_q4kv : ref.logits);
        std::printf("    %-18s %2d-bit KV against %s: %.4f %%\n", c.name, kv_bits,
                    against_q4 ? "4-bit KV" : "full KV ", 100 * error);
        return error;
    }
};

TEST_P(golden_model, logits_with_16_bit_kv_are_the_references) {
    EXPECT_LE(error_at(16, false), GetParam().error_max);
}

// 8-bit K and V cost a few tenths of a per cent more.
TEST_P(golden_model, logits_with_8_bit_kv_are_near_the_references) {
    const golden_case& c = GetParam();
    EXPECT_LE(error_at(8, false), std::max(c.error_max + 0.01, c.error_max_q8));
    const reference ref = reference_of(c);
    loaded_model model(run_of(c, 8));
    ASSERT_TRUE(model);
    const auto sequence = model.new_sequence();
    const double median = median_error(model.logits(*sequence, ref.input, 512), ref, ref.logits);
    std::printf("    %-18s  8-bit KV, median over positions: %.4f %%\n", c.name, 100 * median);
    EXPECT_LE(median, std::max(c.error_max + 0.01, c.median_max_q8));
}

TEST_P(golden_model, logits_with_4_bit_kv_are_those_of_the_reference_with_4_bit_kv) {
    EXPECT_LE(error_at(4, true), GetParam().error_max_q4);
}

// Goal: the same greedy answer, except where the reference itself was near a tie. Method: feed the
// reference's answer and ask at every token whether it is ours too, or within 5 % of the logits'
// spread of ours.
TEST_P(golden_model, greedy_answers_are_the_references) {
    const golden_case& c = GetParam();
    const reference ref = reference_of(c);
    loaded_model model(run_of(c, 16));
    ASSERT_TRUE(model);
    for (const tests::greedy_comparison& each : tests::compare_greedy(model, ref)) {
        std::printf(
            "    %-18s after %zu tokens: %d of %zu greedy tokens equal, worst gap %.3f %%, margin "
            "%.3f %%\n",
            c.name, each.prompt, each.equal, each.count, 100 * each.worst, 100 * each.margin);
        EXPECT_LE(each.worst, each.margin > 0.05 ? 0.0 : 0.05);
    }
}

std::string name_of(const testing::TestParamInfo<golden_case>& each) {
    std::string name = each.param.name;
    for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
    return name;
}

INSTANTIATE_TEST_SUITE_P(
    models, golden_model,
    testing::Values(
        golden_case{"llama31", "llama31", 0.01}, golden_case{"llama31-published", "llama31", 0.01},
        golden_case{"smollm2", "smollm2", 0.01}, golden_case{"qwen25", "qwen25", 0.01},
        golden_case{"qwen3", "qwen3", 0.01}, golden_case{"qwen3moe", "qwen3moe", 0.01, 0.25, 0.25},
        golden_case{"mistral", "mistral", 0.01}, golden_case{"gemma3", "gemma3", 0.01},
        golden_case{"gemma3-published", "gemma3", 0.01},
        golden_case{"gptoss", "gptoss", 0.01, 0.25},
        golden_case{"gptoss-mxfp4", "gptoss-mxfp4", 0.01, 0.25},
        golden_case{"deepseek2", "deepseek2", 0.01, 0.25},
        golden_case{"deepseek2-published", "deepseek2", 0.01, 0.25},
        golden_case{"deepseek2-grouped", "deepseek2-grouped", 0.01, 0.25},
        golden_case{"deepseek2-mlx-8bit", "deepseek2-mlx-8bit", 0.025, 0.25},
        golden_case{"mlx-4bit", "mlx-4bit", 0.025}, golden_case{"mlx-8bit", "mlx-8bit", 0.025}),
    name_of);

// Layers that are not attention: LFM2's convolutions, the gated delta rule, Mamba-2.
INSTANTIATE_TEST_SUITE_P(
    hybrids, golden_model,
    testing::Values(golden_case{"lfm2", "lfm2", 0.01}, golden_case{"lfm2-published", "lfm2", 0.01},
                    golden_case{"lfm2.gguf", "lfm2", 0.01},
                    golden_case{"lfm2moe", "lfm2moe", 0.01, 0.25, 0.25},
                    golden_case{"lfm2moe-published", "lfm2moe", 0.01, 0.25, 0.25},
                    golden_case{"lfm2moe.gguf", "lfm2moe", 0.01, 0.25, 0.25},
                    golden_case{"qwen35", "qwen35", 0.01},
                    golden_case{"qwen35-published", "qwen35-published", 0.01},
                    golden_case{"qwen35.gguf", "qwen35", 0.01},
                    golden_case{"qwen35moe", "qwen35moe", 0.01, 0.25, 0.25},
                    golden_case{"qwen35moe-published", "qwen35moe-published", 0.01, 0.25, 0.25},
                    golden_case{"qwen35moe.gguf", "qwen35moe", 0.01, 0.25, 0.25},
                    golden_case{"qwen3next", "qwen3next", 0.01, 0.25, 0.25},
                    golden_case{"qwen3next-published", "qwen3next", 0.01, 0.25, 0.25},
                    golden_case{"qwen3next.gguf", "qwen3next", 0.01, 0.25, 0.25},
                    golden_case{"granitehybrid", "granitehybrid", 0.01, 0.25, 0.25},
                    golden_case{"granitehybrid-published", "granitehybrid", 0.01, 0.25, 0.25},
                    golden_case{"granitehybrid.gguf", "granitehybrid", 0.01, 0.25, 0.25},
                    golden_case{"granitehybrid-dense", "granitehybrid-dense", 0.01},
                    golden_case{"granitehybrid-dense-published", "granitehybrid-dense", 0.01},
                    golden_case{"granitehybrid-dense.gguf", "granitehybrid-dense", 0.01},
                    golden_case{"nemotronh", "nemotronh", 0.01},
                    golden_case{"nemotronh-published", "nemotronh", 0.01},
                    golden_case{"nemotronh.gguf", "nemotronh", 0.01},
                    golden_case{"nemotronh-moe", "nemotronh-moe", 0.01, 0.25, 0.25},
                    golden_case{"nemotronh-moe-published", "nemotronh-moe", 0.01, 0.25, 0.25},
                    golden_case{"nemotronh-moe.gguf", "nemotronh-moe", 0.01, 0.25, 0.25}),
    name_of);

// Families that differ from Llama by data: places of norms, multipliers, rope, fused tensors,
// routers. Arcee's squared ReLU doubles what rounded K and V cost.
INSTANTIATE_TEST_SUITE_P(
    plain, golden_model,
    testing::Values(
        golden_case{"smollm3", "smollm3", 0.01}, golden_case{"smollm3-published", "smollm3", 0.01},
        golden_case{"smollm3.gguf", "smollm3", 0.01}, golden_case{"olmo2", "olmo2", 0.01},
        golden_case{"olmo2.gguf", "olmo2", 0.01}, golden_case{"exaone4", "exaone4", 0.01},
        golden_case{"exaone4.gguf", "exaone4", 0.01},
        golden_case{"arcee", "arcee", 0.01, 0.08, 0.03, 0.03},
        golden_case{"arcee.gguf", "arcee", 0.01, 0.08, 0.03, 0.03},
        golden_case{"llama32", "llama32", 0.01}, golden_case{"llama32-published", "llama32", 0.01},
        golden_case{"llama32.gguf", "llama32", 0.01}, golden_case{"granite", "granite", 0.01, 0.08},
        golden_case{"granite-published", "granite", 0.01, 0.08},
        golden_case{"granite.gguf", "granite", 0.01, 0.08}, golden_case{"olmo3", "olmo3", 0.01},
        golden_case{"olmo3-published", "olmo3", 0.01}, golden_case{"olmo3.gguf", "olmo3", 0.01},
        golden_case{"ministral3-published", "ministral3-published", 0.01},
        golden_case{"ministral3.gguf", "ministral3-published", 0.01},
        golden_case{"seedoss", "seedoss", 0.01}, golden_case{"seedoss-published", "seedoss", 0.01},
        golden_case{"seedoss.gguf", "seedoss", 0.01}, golden_case{"phi3", "phi3", 0.01},
        golden_case{"phi3-published", "phi3", 0.01}, golden_case{"phi3.gguf", "phi3", 0.01},
        golden_case{"glm4moe", "glm4moe", 0.01, 0.25, 0.25},
        golden_case{"glm4moe-published", "glm4moe", 0.01, 0.25, 0.25},
        golden_case{"glm4moe.gguf", "glm4moe", 0.01, 0.25, 0.25},
        golden_case{"glm4moelite", "glm4moelite", 0.01, 0.25},
        golden_case{"glm4moelite-published", "glm4moelite", 0.01, 0.25},
        golden_case{"glm4moelite.gguf", "glm4moelite", 0.01, 0.25}),
    name_of);

// Gemma 4: layers that differ in their heads, that read others' keys and values, that get
// something of a token next to the stream, and that have experts next to their MLP. Its scores are
// not scaled down, so that errors of rounded K and V weigh more.
INSTANTIATE_TEST_SUITE_P(
    gemma4, golden_model,
    testing::Values(golden_case{"gemma4-published", "gemma4-published", 0.01, 0.09},
                    golden_case{"gemma4", "gemma4-published", 0.01, 0.09},
                    golden_case{"gemma4.gguf", "gemma4-published", 0.01, 0.09},
                    golden_case{"gemma4-e-published", "gemma4-e-published", 0.01, 0.09, 0.045},
                    golden_case{"gemma4-e", "gemma4-e-published", 0.01, 0.09, 0.045},
                    golden_case{"gemma4-e.gguf", "gemma4-e-published", 0.01, 0.09, 0.045},
                    golden_case{"gemma4moe-published", "gemma4moe-published", 0.01, 0.25, 0.25,
                                0.03},
                    golden_case{"gemma4moe", "gemma4moe-published", 0.01, 0.25, 0.25, 0.03},
                    golden_case{"gemma4moe.gguf", "gemma4moe-published", 0.01, 0.25, 0.25, 0.03}),
    name_of);

}  // namespace
}  // namespace semantic::engine

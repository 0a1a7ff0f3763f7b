// SPDX-License-Identifier: Apache-2.0
// Small models at the edges of what their families' configs can say, against logits of transformers
// in float32: head dimensions and widths that fill no group of 64, which a 16-bit cache allows.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "tests/engine/model/loaded_model.hpp"

namespace semantic::engine {
namespace {

using storage::token_id;

std::string folder(const std::string& name) {
    return SEMANTIC_SOURCE_DIR "/tests/golden/models/" + name;
}

template <class Stored>
std::vector<Stored> elements(const storage::safetensors_file& file, const char* name) {
    const auto bytes = file.view().tensors.at(name).bytes;
    std::vector<Stored> out(bytes.size() / sizeof(Stored));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

std::vector<float> logits(const std::string& name, std::span<const token_id> ids, int chunk) {
    tests::model_run run;
    run.folder = folder(name);
    tests::loaded_model model(run);
    if (!model) return {};
    const auto sequence = model.new_sequence();
    return model.logits(*sequence, ids, chunk);
}

class odd_shapes : public testing::TestWithParam<const char*> {};

/// The f16 cache alone costs a few hundredths of a per cent.
TEST_P(odd_shapes, give_the_references_logits_in_any_chunks) {
    auto file = storage::safetensors_file::open(folder(GetParam()) + "/expected.safetensors");
    ASSERT_TRUE(file) << file.error().what;
    const auto ids = elements<std::int64_t>(*file, "input_ids");
    const std::vector<token_id> input(ids.begin(), ids.end());
    const auto positions = elements<std::int64_t>(*file, "positions");
    const auto want = elements<float>(*file, "logits");
    const std::size_t vocabulary = want.size() / positions.size();
    const std::vector<float> all = logits(GetParam(), input, 310);
    ASSERT_EQ(all.size(), input.size() * vocabulary);
    double difference = 0.0, sum = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const auto row = static_cast<std::size_t>(positions[i / vocabulary]);
        const double off = all[row * vocabulary + i % vocabulary] - want[i];
        difference += off * off;
        sum += want[i];
        squares += static_cast<double>(want[i]) * want[i];
    }
    const auto n = static_cast<double>(want.size());
    EXPECT_LE(std::sqrt(difference / n), 0.002 * std::sqrt(squares / n - sum / n * (sum / n)));
    for (const int chunk : {1, 7, 256}) {
        const std::vector<float> same = logits(GetParam(), input, chunk);
        ASSERT_EQ(same.size(), all.size());
        EXPECT_EQ(std::memcmp(same.data(), all.data(), all.size() * sizeof(float)), 0) << chunk;
    }
}

// llama: head_dim 80, one KV head, biases everywhere, YaRN with an amplitude of its own. qwen2:
// head_dim 24, a window of 7 after the first layer. qwen3: head_dim 96, biases, a window longer
// than a block, linear rope. gemma3: head_dim 16, every third layer full, an odd query scalar, bf16
// weights without the field that says so. gptoss: one expert of five, a window of one token, no
// biases, a sigmoid and a limit of its own, llama3 rope.
INSTANTIATE_TEST_SUITE_P(models, odd_shapes,
                         testing::Values("odd-llama", "odd-qwen2", "odd-qwen3", "odd-gemma3",
                                         "odd-gptoss"),
                         [](const auto& each) {
                             std::string name = each.param;
                             for (char& c : name) c = c == '-' ? '_' : c;
                             return name;
                         });

}  // namespace
}  // namespace semantic::engine

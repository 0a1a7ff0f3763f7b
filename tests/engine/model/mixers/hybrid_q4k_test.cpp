// SPDX-License-Identifier: Apache-2.0
// A hybrid in Q4_K, whose super-blocks of 256 no golden model's rows hold: one of Qwen3.5's
// architecture with wider rows, against the floats that its blocks mean.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/model/mixers/hybrid_files.hpp"
#include "tests/engine/model/weights/retyped_gguf.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::gguf_type;
using tests::gguf_writer;

constexpr std::uint64_t golden_hidden = 64, golden_inner = 128, hidden = 256;

/// The golden model's shape of a tensor with rows of 256.
std::vector<std::uint64_t> wider(const std::string& name, std::vector<std::uint64_t> shape) {
    // A state's parts keep their sizes.
    if (name.find(".ssm_norm.") != name.npos || name.find(".ssm_conv1d.") != name.npos)
        return shape;
    const bool inner = name.find(".ffn_") != name.npos;
    for (std::uint64_t& extent : shape)
        if (extent == golden_hidden || (inner && extent == golden_inner)) extent = hidden;
    return shape;
}

struct wide_files {
    std::string blocks, floats;
};

wide_files make_files() {
    const auto parts = storage::open_gguf(SEMANTIC_SOURCE_DIR "/tests/golden/gguf/qwen35.gguf");
    EXPECT_TRUE(parts);
    const storage::gguf_view& view = parts->front().view();
    gguf_writer blocks, floats;
    for (const auto& [key, value] : view.metadata) {
        const bool is_size =
            key == "qwen35.embedding_length" || key == "qwen35.feed_forward_length";
        if (key == "general.alignment") continue;
        for (gguf_writer* each : {&blocks, &floats})
            if (is_size)
                each->pair(key, static_cast<std::uint32_t>(hidden));
            else
                tests::copy_pair(*each, key, value);
    }
    std::mt19937 random(7);
    for (const auto& [name, tensor] : view.tensors) {
        const auto shape = wider(name, {tensor.shape.rbegin(), tensor.shape.rend()});
        const auto put = [&](gguf_writer& file, gguf_type type, const std::string& bytes) {
            file.tensor(name, shape, static_cast<std::uint32_t>(type), bytes);
        };
        std::uint64_t count = 1;
        for (const std::uint64_t extent : shape) count *= extent;
        std::vector<float> values(count, 1.0f);
        if (tensor.type == gguf_type::bf16) {
            std::normal_distribution<float> normal(0.0f,
                                                   1.0f / std::sqrt(static_cast<float>(shape[0])));
            for (float& each : values) each = normal(random);
            std::string bytes;
            for (std::size_t i = 0; i < values.size(); i += tests::super_block)
                bytes += tests::round_super_block(values.data() + i);
            put(blocks, gguf_type::q4_k, bytes);
            put(floats, gguf_type::f32, tests::as_bytes(values));
            continue;
        }
        std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
        // Of norms only the golden ones' length differs.
        if (bytes.size() != count * sizeof(float)) bytes = tests::as_bytes(values);
        for (gguf_writer* each : {&blocks, &floats}) put(*each, tensor.type, bytes);
    }
    return {blocks.bytes(), floats.bytes()};
}

TEST(hybrid_q4k, gives_what_its_weights_as_floats_give) {
    const tests::temp_dir dir;
    const wide_files made = make_files();
    tests::write_file(dir / "blocks.gguf", made.blocks);
    tests::write_file(dir / "floats.gguf", made.floats);
    const std::vector<float> floats = tests::logits_of(dir / "floats.gguf");
    const double error = tests::median_error(tests::logits_of(dir / "blocks.gguf"), floats);
    const double compensated =
        tests::median_error(tests::logits_of(dir / "blocks.gguf", true), floats);
    std::printf("    qwen35 q4_k: %.3f %%, compensated %.4f %%\n", 100 * error, 100 * compensated);
    EXPECT_LE(error, 0.1) << "what activations of 8 bits cost";
    EXPECT_LE(compensated, 0.002);
}

}  // namespace
}  // namespace semantic::engine

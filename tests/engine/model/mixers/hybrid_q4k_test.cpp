// A hybrid in Q4_K, whose super-blocks of 256 no golden model's rows hold: one of Qwen3.5's
// architecture with wider rows, against the floats that its blocks mean.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/model/mixers/hybrid_files.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::gguf_type;
using tests::gguf_writer;

constexpr std::size_t super_block = 256, sub_block = 32, sub_blocks = super_block / sub_block;
constexpr std::uint64_t golden_hidden = 64, golden_inner = 128, hidden = 256;

/// The scales and minimums of a super-block, of 6 bits each, in their 12 bytes.
std::string pack_levels(const std::array<int, sub_blocks>& scales,
                        const std::array<int, sub_blocks>& minimums) {
    std::string bytes(12, '\0');
    for (std::size_t i = 0; i < 4; ++i) {
        bytes[i] = static_cast<char>(scales[i] | (scales[i + 4] >> 4) << 6);
        bytes[i + 4] = static_cast<char>(minimums[i] | (minimums[i + 4] >> 4) << 6);
        bytes[i + 8] = static_cast<char>((scales[i + 4] & 15) | (minimums[i + 4] & 15) << 4);
    }
    return bytes;
}

/// 256 values as a block of Q4_K, which they become.
std::string round_super_block(float* values) {
    std::array<float, sub_blocks> steps{}, lows{};
    for (std::size_t i = 0; i < sub_blocks; ++i) {
        const auto [low, high] =
            std::minmax_element(values + i * sub_block, values + (i + 1) * sub_block);
        lows[i] = std::max(0.0f, -*low);
        steps[i] = (std::max(0.0f, *high) + lows[i]) / 15.0f;
    }
    const half scale = to_half(*std::ranges::max_element(steps) / 63.0f);
    const half minimum = to_half(*std::ranges::max_element(lows) / 63.0f);
    std::array<int, sub_blocks> scales{}, minimums{};
    const auto level = [](float value, float step, int most) {
        return step == 0.0f ? 0 : std::clamp(static_cast<int>(std::lround(value / step)), 0, most);
    };
    std::array<int, super_block> codes{};
    for (std::size_t i = 0; i < sub_blocks; ++i) {
        scales[i] = level(steps[i], to_float(scale), 63);
        minimums[i] = level(lows[i], to_float(minimum), 63);
        const float step = to_float(scale) * static_cast<float>(scales[i]);
        const float low = to_float(minimum) * static_cast<float>(minimums[i]);
        for (std::size_t k = i * sub_block; k < (i + 1) * sub_block; ++k) {
            codes[k] = level(values[k] + low, step, 15);
            values[k] = step * static_cast<float>(codes[k]) - low;
        }
    }
    std::string block =
        gguf_writer::raw(scale) + gguf_writer::raw(minimum) + pack_levels(scales, minimums);
    for (std::size_t pair = 0; pair < super_block; pair += 2 * sub_block)
        for (std::size_t k = pair; k < pair + sub_block; ++k)
            block += static_cast<char>(codes[k] | codes[k + sub_block] << 4);
    return block;
}

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
            for (std::size_t i = 0; i < values.size(); i += super_block)
                bytes += round_super_block(values.data() + i);
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

// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/weights/retyped_gguf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/engine/model/mixers/hybrid_files.hpp"

namespace semantic::tests {

using engine::half;
using engine::to_float;
using engine::to_half;
using storage::gguf_type;

namespace {

constexpr std::size_t sub_block = 32, sub_blocks = super_block / sub_block;

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

/// 32 values as a block of Q8_0 or Q4_0, which they become.
std::string round_block(gguf_type type, float* values) {
    const float* largest = std::max_element(
        values, values + 32, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    const bool eight = type == gguf_type::q8_0;
    const half scale = to_half(eight ? std::fabs(*largest) / 127.0f : *largest / -8.0f);
    const float step = to_float(scale);
    std::string block = gguf_writer::raw(scale);
    int levels[32];
    for (int i = 0; i < 32; ++i) {
        const float level = step == 0.0f ? 0.0f : std::nearbyint(values[i] / step);
        levels[i] =
            static_cast<int>(std::clamp(level, eight ? -127.0f : -8.0f, eight ? 127.0f : 7.0f));
        values[i] = step * static_cast<float>(levels[i]);
    }
    for (int i = 0; i < (eight ? 32 : 16); ++i)
        block += static_cast<char>(eight ? levels[i] : (levels[i] + 8) | (levels[i + 16] + 8) << 4);
    return block;
}

storage::gguf_type type_for(std::uint64_t row, storage::gguf_type wanted) {
    if (wanted == gguf_type::f32) return wanted;
    if (wanted == gguf_type::q4_k && row % super_block != 0) wanted = gguf_type::q4_0;
    return row % 32 == 0 ? wanted : gguf_type::bf16;
}

/// Rounds `values` to `type`. Returns: their bytes.
std::string round_values(gguf_type type, std::vector<float>& values) {
    if (type == gguf_type::f32) return as_bytes(values);
    const bool is_super = type == gguf_type::q4_k;
    std::string bytes;
    for (std::size_t i = 0; i < values.size(); i += is_super ? super_block : 32)
        bytes +=
            is_super ? round_super_block(values.data() + i) : round_block(type, values.data() + i);
    return bytes;
}

}  // namespace

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

retyped_gguf retype(const std::string& path, gguf_type type) {
    const auto parts = storage::open_gguf(path);
    EXPECT_TRUE(parts) << (parts ? "" : parts.error().what);
    if (!parts) return {};
    const storage::gguf_view& view = parts->front().view();
    gguf_writer file, floats;
    for (const auto& [key, value] : view.metadata) {
        if (key == "general.alignment") continue;
        copy_pair(file, key, value);
        copy_pair(floats, key, value);
    }
    retyped_gguf made;
    for (const auto& [name, tensor] : view.tensors) {
        const std::vector<std::uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
        const gguf_type rounded =
            tensor.type == gguf_type::bf16 ? type_for(shape.front(), type) : tensor.type;
        if (rounded == tensor.type) {
            const std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()),
                                    tensor.bytes.size());
            file.tensor(name, shape, static_cast<std::uint32_t>(tensor.type), bytes);
            floats.tensor(name, shape, static_cast<std::uint32_t>(tensor.type), bytes);
            continue;
        }
        std::vector<float> values = widen(tensor);
        file.tensor(name, shape, static_cast<std::uint32_t>(rounded),
                    round_values(rounded, values));
        floats.tensor(name, shape, static_cast<std::uint32_t>(gguf_type::f32), as_bytes(values));
        ++made.matrices;
    }
    made.blocks = file.bytes();
    made.floats = floats.bytes();
    return made;
}

}  // namespace semantic::tests

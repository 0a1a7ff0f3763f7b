// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of the rotation and the quantising of keys and values that all tables share.

#include <array>
#include <cstddef>
#include <cstdint>

namespace semantic::engine {

/// Channel i has sign rotation_signs[i % 256], -1 where bit i % 64 of word i / 64 % 4 is set. The
/// words are the first 64 bits after the binary point of the square roots of 2, 3, 5 and 7.
inline constexpr std::array<float, 256> rotation_signs = [] {
    constexpr std::uint64_t words[] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu,
                                       0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u};
    std::array<float, 256> signs{};
    for (std::size_t i = 0; i < signs.size(); ++i) {
        signs[i] = (words[i / 64] >> i % 64 & 1u) != 0 ? -1.0f : 1.0f;
    }
    return signs;
}();

/// The least scale of a group: f16 would round a smaller one to 0.
inline constexpr float least_kv_scale = 1e-7f;

/// How often (25) fits a line to a group; a fourth fit would reduce the squared error by only 1 %.
inline constexpr int kv_fits = 3;

/// Elements of a head that are mixed with each other: the largest power of two that divides `dim`.
constexpr int rotation_block(int dim) noexcept { return dim & -dim; }

}  // namespace semantic::engine

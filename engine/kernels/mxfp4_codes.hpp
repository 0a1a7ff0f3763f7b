// SPDX-License-Identifier: Apache-2.0
#pragma once
// The numbers of MXFP4 (4-bit floats e2m1 with an 8-bit exponent per 32), as every table uses them.

#include <bit>
#include <cstdint>

namespace semantic::engine {

/// Twice the value of each code is an integer; adding this makes all of them positive.
inline constexpr int mxfp4_offset = 12;
/// 2 * value + mxfp4_offset of the codes 0 to 15.
alignas(16) inline constexpr std::uint8_t mxfp4_levels[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                              12, 11, 10, 9,  8,  6,  4,  0};
/// Inputs that share a scale.
inline constexpr int mxfp4_half = 32;

/// 2^(exponent - 128), the weight of one unit of 2 * value: exact, at 0 and 1 as a subnormal.
inline float mxfp4_unit(std::uint8_t exponent) noexcept {
    const std::uint32_t bits = exponent == 0 ? 0x00400000u : std::uint32_t{exponent} << 23;
    return std::bit_cast<float>(bits) * 0.5f;
}

}  // namespace semantic::engine

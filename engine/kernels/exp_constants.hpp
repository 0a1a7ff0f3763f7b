// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers that every table shares. exp(x) = 2^n * P(r), n = round(x / ln 2), r = x - n ln 2.
// Numbers in parentheses are formulas of ARITHMETIC.md.

namespace semantic::engine {

inline constexpr float exp_log2e = 1.44269504f;
/// 1.5 * 2^23: adding it rounds to an integer, half to even, and leaves that integer in the low
/// bits.
inline constexpr float exp_magic = 12582912.0f;
/// ln 2 in two parts; the high one has 9 trailing zero bits, so n * high is exact.
inline constexpr float exp_ln2_high = 0.693359375f;
inline constexpr float exp_ln2_low = -2.12194440e-4f;
/// Below this the result is under the smallest normal number (2^-126 = exp(-87.33654)): 0.
inline constexpr float exp_underflow = -87.3365f;
/// ln of the largest float.
inline constexpr float exp_overflow = 88.722831f;
/// Highest power first. Minimax fit of exp on +-ln(2)/2, relative error 2e-9 before rounding.
inline constexpr int exp_coefficient_count = 7;
inline constexpr float exp_coefficients[exp_coefficient_count] = {1.384360599e-03f,
                                                                  8.374195546e-03f,
                                                                  4.166800529e-02f,
                                                                  1.666643023e-01f,
                                                                  4.999999404e-01f,
                                                                  1.0f,
                                                                  1.0f};

/// (8): 2^x = 2^n * P(r), n = round(x), r = x - n. Highest power first; exactly 1 at r = 0.
/// Minimax on +-1/2, relative error below 1.1e-4.
inline constexpr int exp2_coefficient_count = 4;
inline constexpr float exp2_coefficients[exp2_coefficient_count] = {
    5.500893295e-02f, 2.422109842e-01f, 6.932829022e-01f, 1.0f};
/// Least exponent of (8), so that no product with a factor is too small for a float.
inline constexpr float exp2_lowest = -64.0f;
inline constexpr float exp_ln2 = 0.693147181f;

// Weights of attention at 4 bit, (9) and (10): 2^x of 0 >= x >= -16 in 16-bit integers.
inline constexpr int weight_step_bits = 11;     // binary digits of x after the point
inline constexpr float weight_steps = 2048.0f;  // of x from one power of two to the next
inline constexpr int weight_one = 32767;        // a weight of 1 as an integer
inline constexpr float weight_unit = 1.0f / weight_one;
/// 2^-r = 1 - r * (c[0] - r * (c[1] - r * c[2])) for 0 <= r < 1, as parts of 2^16. Relative error
/// below 1.1e-4, with the rounding of each step.
inline constexpr int weight_coefficients[3] = {45325, 15153, 2599};
inline constexpr float maximum_step = 32.0f;  // (6): running maxima are multiples of this
inline constexpr int centre_one =
    16383;                             // the largest centre: 4 of them times weight_one are an int
inline constexpr int level_one = 255;  // the largest level
/// (15): added to the size of token t of a tile, of which a level has 128.5, before that becomes a
/// level: the tokens' bits in reverse order, so that of many alike as many round up as their size
/// is a share of a level. Rounded all alike, the many small weights of a tile in which one is large
/// would be nothing together.
inline constexpr int level_dither(int t) {
    int reversed = 0;
    for (int bit = 0; bit < 6; ++bit) reversed |= (t >> bit & 1) << (5 - bit);
    return 2 * reversed - 63;
}
/// (16): a level of 1 where the largest |scale| is 1; two products in parts of 2^15 lead to it.
inline constexpr float level_size =
    static_cast<float>(32768.0 / weight_one * 32768.0 / weight_one / level_one);
/// (14): a sum of weights times centres of 1 where the largest centre is 1.
inline constexpr float weighed_centre = static_cast<float>(1.0 / centre_one / weight_one);

/// -2 sqrt(2 / pi), and that times 0.044715: the tanh form of GELU is x / (1 + exp(-2u)).
inline constexpr float gelu_linear = -1.595769122f;
inline constexpr float gelu_cubic = -7.135481627e-02f;

}  // namespace semantic::engine

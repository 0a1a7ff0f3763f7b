#pragma once
// Numbers that every table shares. exp(x) = 2^n * P(r), n = round(x / ln 2), r = x - n ln 2.

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

/// 2^x = 2^n * P(r), n = round(x), r = x - n, for weights that are rounded to 8 bits afterwards.
/// Highest power first; exactly 1 at r = 0. Minimax on +-1/2, relative error below 1.1e-4.
inline constexpr int exp2_coefficient_count = 4;
inline constexpr float exp2_coefficients[exp2_coefficient_count] = {
    5.500893295e-02f, 2.422109842e-01f, 6.932829022e-01f, 1.0f};
/// 2^x of what is below stands at 2^-126, the smallest normal number.
inline constexpr float exp2_lowest = -126.0f;
inline constexpr float exp_ln2 = 0.693147181f;

/// -2 sqrt(2 / pi), and that times 0.044715: the tanh form of GELU is x / (1 + exp(-2u)).
inline constexpr float gelu_linear = -1.595769122f;
inline constexpr float gelu_cubic = -7.135481627e-02f;

}  // namespace semantic::engine

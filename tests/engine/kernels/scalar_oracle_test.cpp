// SPDX-License-Identifier: Apache-2.0
// The scalar table against plain double-precision answers. Bounds follow from the number of float
// roundings on the way (gamma); each family also shows that a slightly wrong input breaks its
// bound.

#include <gtest/gtest.h>

#include "tests/engine/kernels/attention_case.hpp"
#include "tests/engine/kernels/support.hpp"

namespace semantic::engine::kernel_tests {
namespace {

const kernel_table& scalar() { return *find_kernels("scalar"); }

/// Largest |got - wanted| / bound over a product, W as doubles and x as given.
double product_error(const std::vector<double>& w, int rows, int cols, const std::vector<double>& x,
                     int count, const buffer<float>& y, double roundings) {
    double worst = 0;
    for (int m = 0; m < count; ++m) {
        for (int n = 0; n < rows; ++n) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < cols; ++k) {
                const double term = w[attention_case::size(n, cols) + static_cast<std::size_t>(k)] *
                                    x[attention_case::size(m, cols) + static_cast<std::size_t>(k)];
                sum += term;
                magnitude += std::abs(term);
            }
            const double got =
                static_cast<double>(y[attention_case::size(m, rows) + static_cast<std::size_t>(n)]);
            worst = std::max(worst, std::abs(got - sum) / (gamma(roundings) * magnitude + 1e-37));
        }
    }
    return worst;
}

TEST(scalar_table, float_products_match_double_arithmetic) {
    source random(11);
    for (const weight_kind kind : {weight_kind::f32, weight_kind::f16, weight_kind::bf16}) {
        const int rows = 19, cols = 133, count = 3;
        const test_matrix m = make_float_matrix(kind, rows, cols, random);
        buffer<float> x(3 * 133), y(3 * 19);
        random.fill(x);
        scalar().linear_float(m.packed, 0, 2, x.data(), count, y.data(), 19);
        std::vector<double> exact(x.begin(), x.end());
        // One rounding per fused multiply-add, each term carried through at most cols of them.
        EXPECT_LE(product_error(m.values, rows, cols, exact, count, y, cols), 1.0);
        std::vector<double> mutated = m.values;
        for (double& value : mutated) {
            value *= 1.0001;
        }
        EXPECT_GT(product_error(mutated, rows, cols, exact, count, y, cols), 1.0);
    }
}

/// The values that the quantised rows encode.
std::vector<double> dequantise(const test_rows& rows) {
    std::vector<double> x(rows.q.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<double>(rows.scales[i / 64]) * rows.q[i];
    }
    return x;
}

/// Bound of one quantised product: the integer part and the bias part are rounded apart, so their
/// magnitudes add even where the two cancel in w = scale * q + bias.
double quant_error(const test_matrix& m, const std::vector<double>& x, const buffer<float>& y,
                   int count, double factor) {
    double worst = 0;
    const int cols = m.packed.cols, rows = m.packed.rows;
    for (int r = 0; r < count; ++r) {
        for (int n = 0; n < rows; ++n) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < cols; ++k) {
                const double w =
                    m.values[attention_case::size(n, cols) + static_cast<std::size_t>(k)];
                const double a = x[attention_case::size(r, cols) + static_cast<std::size_t>(k)];
                sum += factor * w * a;
                // Scales below 0.06 and q below 256: |scale * q| + |bias| stays under 16 + |w|.
                magnitude += (std::abs(w) + 16.0) * std::abs(a);
            }
            const double got =
                static_cast<double>(y[attention_case::size(r, rows) + static_cast<std::size_t>(n)]);
            // Per group: float(idot), times scale_x, two fma and the rounded sum; then the chain.
            const double roundings = 5 + 2.0 * cols / 64;
            worst = std::max(worst, std::abs(got - sum) / (gamma(roundings) * magnitude));
        }
    }
    return worst;
}

TEST(scalar_table, quantised_products_match_double_arithmetic) {
    source random(12);
    for (const weight_kind kind : {weight_kind::q4, weight_kind::q8}) {
        for (const scale_kind scales : {scale_kind::f16, scale_kind::bf16, scale_kind::f32}) {
            const test_matrix m = make_quant_matrix(kind, scales, 21, 192, random);
            buffer<float> x(4 * 192), y(4 * 21);
            for (float& value : x) {
                value = random.normal();
            }
            const test_rows rows(scalar(), x.data(), 4, 192);
            scalar().linear_quant(m.packed, 0, 2, rows.view(), 4, y.data(), 21);
            EXPECT_LE(quant_error(m, dequantise(rows), y, 4, 1.0), 1.0);
            EXPECT_GT(quant_error(m, dequantise(rows), y, 4, 1.01), 1.0);
        }
    }
}

TEST(scalar_table, mxfp4_products_match_double_arithmetic) {
    source random(19);
    const test_matrix m = make_mxfp4_matrix(21, 192, random);
    buffer<float> x(4 * 192), y(4 * 21);
    random.fill(x);
    const test_rows rows(scalar(), x.data(), 4, 192);
    scalar().linear_quant(m.packed, 0, 2, rows.view(), 4, y.data(), 21);
    // Per half group the integer sum times the scale rounds once; then one fma for each half.
    const double roundings = 1 + 192 / 32;
    const auto exact = dequantise(rows);
    EXPECT_LE(product_error(m.values, 21, 192, exact, 4, y, roundings), 1.0);
    std::vector<double> mutated = m.values;
    for (double& value : mutated) {
        value *= 1.00001;
    }
    EXPECT_GT(product_error(mutated, 21, 192, exact, 4, y, roundings), 1.0);
    mutated = m.values;
    for (std::size_t i = 0; i < mutated.size(); i += 2) {  // the wrong nibble first
        std::swap(mutated[i], mutated[i + 1]);
    }
    EXPECT_GT(product_error(mutated, 21, 192, exact, 4, y, roundings), 1.0);
}

TEST(scalar_table, mxfp4_scales_are_exact_powers_of_two) {
    for (int exponent = 0; exponent < 255; ++exponent) {
        const std::vector<std::byte> blocks(32, std::byte{0x31});  // 0.5 and 1.5
        const std::vector<std::byte> scales(2, static_cast<std::byte>(exponent));
        packed_matrix w{weight_kind::mxfp4, scale_kind::f16, 1, 64, nullptr};
        buffer<std::byte> data(w.bytes());
        pack_mxfp4(w, {blocks.data(), scales.data()}, 0, 1, data.data());
        w.data = data.data();
        float row[64];
        scalar().embed_row(w, 0, row);
        ASSERT_EQ(static_cast<double>(row[0]), std::ldexp(0.5, exponent - 127)) << exponent;
        ASSERT_EQ(static_cast<double>(row[63]), std::ldexp(1.5, exponent - 127)) << exponent;
    }
}

TEST(scalar_table, quantised_rows_are_within_half_a_step) {
    source random(13);
    buffer<float> x(20 * 64);
    random.fill(x);
    std::fill_n(x.data(), 64, 0.0f);
    std::fill_n(x.data() + 64, 64, 1e-36f);  // too small to divide by
    const test_rows rows(scalar(), x.data(), 1, 20 * 64);
    for (std::size_t g = 0; g < 20; ++g) {
        const double scale = static_cast<double>(rows.scales[g]);
        double sum = 0, peak = 0;
        for (std::size_t i = g * 64; i < g * 64 + 64; ++i) {
            sum += rows.q[i];
            peak = std::max(peak, std::abs(static_cast<double>(x[i])));
            // 1/scale and the product round once each; x / scale is at most 127.
            EXPECT_LE(std::abs(static_cast<double>(x[i]) / scale - rows.q[i]),
                      0.5 + 127 * gamma(3));
        }
        EXPECT_NEAR(scale, g < 2 ? 1.0 : peak / 127, scale * gamma(1));
        EXPECT_NEAR(static_cast<double>(rows.sums[g]), scale * sum,
                    scale * std::abs(sum) * gamma(1));
    }
    EXPECT_EQ(rows.scales[0], 1.0f);
}

/// Largest distance of a level from the input times `factor` in steps, beyond half a step.
double level_excess(const buffer<float>& x, const test_rows& rows, double factor) {
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double level =
            static_cast<double>(x[i]) * factor / static_cast<double>(rows.scales[i / 64]);
        worst = std::max(worst, std::abs(level - rows.q[i]) - 0.5);
    }
    return worst;
}

TEST(scalar_table, slightly_wrong_quantised_rows_break_their_bounds) {
    source random(23);
    buffer<float> x(4 * 64);
    for (float& value : x) {
        value = random.normal();
    }
    test_rows rows(scalar(), x.data(), 1, 4 * 64);
    const double bound = 127 * gamma(3);
    EXPECT_LE(level_excess(x, rows, 1.0), bound);
    EXPECT_GT(level_excess(x, rows, 1.01), bound);
    rows.q[77] = static_cast<std::int8_t>(rows.q[77] + 1);
    EXPECT_GT(level_excess(x, rows, 1.0), bound);
    double sum = 0;
    for (std::size_t i = 64; i < 128; ++i) {
        sum += rows.q[i];
    }
    const double scale = static_cast<double>(rows.scales[1]);
    EXPECT_GT(std::abs(static_cast<double>(rows.sums[1]) - scale * sum),
              scale * std::abs(sum) * gamma(1));
}

double exp_error(float x, float got) {
    const double wanted = std::exp(static_cast<double>(x));
    return std::abs(static_cast<double>(got) - wanted) / wanted / 0x1p-23;
}

TEST(scalar_table, exp_is_within_two_ulp) {
    double worst = 0;
    for (float x = -87.33f; x < 88.72f; x += 0.00713f) {
        float y = 0;
        scalar().exp(&x, &y, 1);
        worst = std::max(worst, exp_error(x, y));
    }
    EXPECT_LT(worst, 2.0);
    float y = 0;
    const float one = 1.0f;
    scalar().exp(&one, &y, 1);
    EXPECT_GT(exp_error(one, y * 1.0000005f), 2.0);
}

TEST(scalar_table, exp_of_the_ends_of_the_range) {
    const float inf = std::numeric_limits<float>::infinity();
    const float x[] = {-inf, -100.0f, -87.34f, 0.0f, 88.73f, inf, std::nanf("")};
    float y[7];
    scalar().exp(x, y, 7);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 0.0f);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 1.0f);
    EXPECT_EQ(y[4], inf);
    EXPECT_EQ(y[5], inf);
    EXPECT_TRUE(std::isnan(y[6]));
}

TEST(scalar_table, rms_norm_matches_double_arithmetic) {
    source random(14);
    const int n = 100;
    buffer<float> x(n), w(n), y(n);
    for (std::size_t i = 0; i < n; ++i) {
        x[i] = random.normal();
        w[i] = random.normal();
    }
    for (const bool one_plus : {false, true}) {
        scalar().rms_norm(x.data(), w.data(), y.data(), n, 1e-5f, one_plus);
        double squares = 0;
        for (const float value : x) {
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
        const double factor = 1 / std::sqrt(squares / n + static_cast<double>(1e-5f));
        for (std::size_t i = 0; i < n; ++i) {
            const double weight = static_cast<double>(w[i]) + (one_plus ? 1.0 : 0.0);
            const double wanted = static_cast<double>(x[i]) * factor * weight;
            // 7 fma a lane, 4 folds, /, +, sqrt, 1/x, two products, 1 + w near cancellation.
            const double bound =
                gamma(20) * (std::abs(wanted) + std::abs(static_cast<double>(x[i])));
            EXPECT_NEAR(static_cast<double>(y[i]), wanted, bound);
            if (std::abs(wanted) > 0.1) {
                EXPECT_GT(std::abs(static_cast<double>(y[i]) * 1.0001 - wanted), bound);
            }
        }
    }
}

/// gelu in double by the formula with tanh; `exponent` is what the kernel's exp sees.
double gelu_answer(double x, double& exponent) {
    const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    exponent = -2 * u;
    return x / 2 * (1 + std::tanh(u));
}

// The exponent takes 5 roundings (two constants, square, fma, product), each of which the exp
// multiplies by its size, at most 40 here; the exp itself is within 2 ulp, then +, / and *.
TEST(scalar_table, gelu_matches_double_arithmetic) {
    source random(17);
    for (int i = 0; i < 2000; ++i) {
        // tanh in double loses what is below 1e-16 of 1: enough digits down to -4.
        float gate = std::max(random.normal() * 3, -4.0f), up = random.normal();
        double exponent = 0;
        const double g = static_cast<double>(gate), u = static_cast<double>(up);
        const double wanted = gelu_answer(g, exponent) * u;
        scalar().gelu_mul(&gate, &up, 1);
        const double got = static_cast<double>(gate);
        const double slope = 1 / (1 + std::exp(-exponent));  // of log(1 + exp(e))
        const double bound =
            std::abs(wanted) * (gamma(7) + slope * std::abs(exponent) * gamma(5) + 1e-9);
        EXPECT_NEAR(got, wanted, bound) << g;
        EXPECT_GT(std::abs(got * 1.0001 - wanted), bound) << g;
        const double other = g / (1 + std::exp(-1.702 * g)) * u;  // the sigmoid approximation
        EXPECT_TRUE(std::abs(g) < 0.1 || std::abs(g) > 2 || std::abs(other - got) > bound) << g;
    }
}

TEST(scalar_table, gelu_of_large_inputs_is_the_input_or_zero) {
    float gate[] = {12.0f, -12.0f, 1e30f, -1e30f, 0.0f};
    const float up[] = {2.0f, 2.0f, 2.0f, 2.0f, 2.0f};
    scalar().gelu_mul(gate, up, 5);
    EXPECT_EQ(gate[0], 24.0f);
    EXPECT_EQ(gate[1], 0.0f);
    EXPECT_EQ(gate[2], 2e30f);
    EXPECT_EQ(gate[3], 0.0f);
    EXPECT_EQ(gate[4], 0.0f);
}

double swiglu_answer(double gate, double up, double alpha, double limit) {
    const double g = std::min(gate, limit), u = std::clamp(up, -limit, limit);
    return (u + 1) * g / (1 + std::exp(-alpha * g));
}

TEST(scalar_table, clamped_swiglu_matches_double_arithmetic) {
    source random(18);
    const float alpha = 1.702f, limit = 7.0f;
    const double a = static_cast<double>(alpha);
    int clamped = 0;
    for (int i = 0; i < 2000; ++i) {
        float gate = random.normal() * 6, up = random.normal() * 6;
        const double g = static_cast<double>(gate), u = static_cast<double>(up);
        clamped += std::abs(g) > 7 || std::abs(u) > 7 ? 1 : 0;
        scalar().swiglu_clamped(&gate, &up, 1, alpha, limit);
        const double got = static_cast<double>(gate), wanted = swiglu_answer(g, u, a, 7.0);
        // One rounding of the exponent, the exp, u + 1, 1 + e, / and *.
        const double bound =
            std::abs(wanted) * (gamma(8) + a * std::abs(std::min(g, 7.0)) * gamma(1));
        EXPECT_NEAR(got, wanted, bound) << g << " " << u;
        EXPECT_GT(std::abs(got * 1.0001 - wanted), bound) << g << " " << u;
        EXPECT_GT(std::abs(swiglu_answer(g, u, a * 1.01, 7.0) - got), g > 4 ? 0.0 : bound) << g;
        if (g > 7.01 || std::abs(u) > 7.01) {
            EXPECT_GT(std::abs(swiglu_answer(g, u, a, 7.01) - got), bound) << g << " " << u;
        }
    }
    EXPECT_GT(clamped, 200);
}

TEST(scalar_table, clamped_swiglu_leaves_a_very_negative_gate_unclamped) {
    float gate[] = {-8.0f, -1000.0f, 9.0f};
    const float up[] = {-9.0f, 5.0f, 9.0f};
    scalar().swiglu_clamped(gate, up, 3, 1.0f, 7.0f);
    EXPECT_NEAR(gate[0], 48 / (1 + std::exp(8.0f)), 1e-6f);
    EXPECT_EQ(gate[1], 0.0f);
    EXPECT_NEAR(gate[2], 56 / (1 + std::exp(-7.0f)), 1e-4f);
}

TEST(scalar_table, silu_matches_double_arithmetic) {
    source random(15);
    for (int i = 0; i < 500; ++i) {
        float gate = random.normal() * 8, up = random.normal();
        const double g = static_cast<double>(gate), u = static_cast<double>(up);
        scalar().silu_mul(&gate, &up, 1);
        const double wanted = g / (1 + std::exp(-g)) * u;
        EXPECT_NEAR(static_cast<double>(gate), wanted, std::abs(wanted) * gamma(8));
        EXPECT_GT(std::abs(static_cast<double>(gate) * 1.00001 - wanted),
                  std::abs(wanted) * gamma(8));
    }
}

/// Largest error of a rotated head as a part of its bound; the answer turns by `angles` times
/// `turn` and pairs x[i] with x[i + half], or neighbours if `neighbours`.
double rope_error(const buffer<float>& before, const buffer<float>& after,
                  const std::vector<double>& angles, double turn, bool neighbours) {
    double worst = 0;
    for (std::size_t i = 0; i < angles.size(); ++i) {
        const std::size_t first = neighbours ? 2 * i : i;
        const std::size_t second = neighbours ? first + 1 : i + angles.size();
        const double a = static_cast<double>(before[first]);
        const double b = static_cast<double>(before[second]);
        const double c = std::cos(angles[i] * turn), s = std::sin(angles[i] * turn);
        // The cosine or sine as given, the product and the fma round once each.
        const double bound = gamma(3) * (std::abs(a) + std::abs(b));
        worst =
            std::max(worst, std::abs(static_cast<double>(after[first]) - (a * c - b * s)) / bound);
        worst =
            std::max(worst, std::abs(static_cast<double>(after[second]) - (b * c + a * s)) / bound);
    }
    return worst;
}

TEST(scalar_table, rope_matches_double_arithmetic) {
    source random(16);
    buffer<float> before(64), after(64), cosines(32), sines(32);
    std::vector<double> angles;
    for (std::size_t i = 0; i < 32; ++i) {
        angles.push_back(1.0 + static_cast<double>(random.normal()));
        cosines[i] = static_cast<float>(std::cos(angles[i]));
        sines[i] = static_cast<float>(std::sin(angles[i]));
    }
    for (std::size_t i = 0; i < 64; ++i) {
        before[i] = after[i] = random.normal();
    }
    scalar().rope(after.data(), cosines.data(), sines.data(), 64);
    EXPECT_LE(rope_error(before, after, angles, 1.0, false), 1.0);
    EXPECT_GT(rope_error(before, after, angles, 1.00001, false), 1.0);
    EXPECT_GT(rope_error(before, after, angles, -1.0, false), 1.0);
    EXPECT_GT(rope_error(before, after, angles, 1.0, true), 1.0);
}

struct affine_errors {
    double parameters = 0, levels = 0;  // the largest, as parts of their bounds
};

/// A group packed by quantize_kv against the MLX affine rule in double. `factor` is put on the
/// scale that the answer expects, `shift` on its levels.
affine_errors affine_error(const float* x, const std::byte* row, int bits, half scale, half bias,
                           double factor, double shift) {
    double low = static_cast<double>(x[0]), high = low;
    for (int i = 1; i < 64; ++i) {
        low = std::min(low, static_cast<double>(x[i]));
        high = std::max(high, static_cast<double>(x[i]));
    }
    const double steps = (1 << bits) - 1;
    const double edge = std::abs(low) > std::abs(high) ? low : high;
    double wanted = (high - low) / steps * (edge == low ? 1 : -1);
    const double zero_step = std::nearbyint(edge / wanted);
    wanted = edge / zero_step;
    affine_errors worst;
    // Both are rounded to 11 bits, after a handful of float roundings.
    const double rounding = 0x1p-11 + gamma(6);
    const double got = static_cast<double>(to_float(scale)), start = static_cast<double>(edge);
    worst.parameters = std::max(
        std::abs(got - wanted * factor) / (std::abs(wanted) * rounding),
        std::abs(static_cast<double>(to_float(bias)) - start) / (std::abs(start) * rounding));
    for (int i = 0; i < 64; ++i) {
        const unsigned q =
            packed_level(row, static_cast<std::size_t>(bits), static_cast<std::size_t>(i));
        const double level = (static_cast<double>(x[i]) - edge) / wanted + shift;
        // Half a step, and the roundings of the scale, the difference and the quotient.
        const double error = std::abs(std::clamp(level, 0.0, steps) - q);
        worst.levels = std::max(worst.levels, error / (0.5 + steps * gamma(8)));
    }
    return worst;
}

TEST(scalar_table, quantised_kv_is_within_half_a_step) {
    source random(20);
    for (const int bits : {4, 5, 6, 7, 8}) {
        for (int round = 0; round < 200; ++round) {
            float x[64];
            const float shift = static_cast<float>(round % 5 - 2);
            for (float& value : x) {
                value = random.normal() + shift;
            }
            std::byte row[64];
            half scale = 0, bias = 0;
            scalar().quantize_kv(x, 64, bits, kv_rounding::mlx, row, &scale, &bias);
            const auto right = affine_error(x, row, bits, scale, bias, 1.0, 0.0);
            EXPECT_LE(right.parameters, 1.0) << bits << " " << round;
            EXPECT_LE(right.levels, 1.0) << bits << " " << round;
            const auto wrong = affine_error(x, row, bits, scale, bias, 1.0015, 0.3);
            EXPECT_GT(wrong.parameters, 1.0) << bits << " " << round;
            EXPECT_GT(wrong.levels, 1.0) << bits << " " << round;
        }
    }
}

/// Relative error of a weight p: of the score of 70 roundings whose terms add to less than 64,
/// twice.
const double weight_error = 2 * gamma(70) * 64;

/// The whole softmax in double, from the dequantised queries, keys and values.
attention_answer answer_of(const attention_case& c, const test_rows* q, int r, double mutation) {
    const int kd = c.shape.k_dim, vd = c.shape.v_dim;
    const auto row = static_cast<std::size_t>(r), width = static_cast<std::size_t>(vd);
    std::vector<double> weights;
    attention_answer answer{std::vector<double>(width), std::vector<double>(width)};
    double sum = 0;
    for (int t = c.begin[row]; t < c.end[row]; ++t) {
        double dot = 0;
        for (int d = 0; d < kd; ++d) {
            const std::size_t i = attention_case::size(r, kd) + static_cast<std::size_t>(d);
            const double x = q == nullptr ? static_cast<double>(c.queries[i])
                                          : static_cast<double>(q->scales[i / 64]) * q->q[i];
            dot += x * c.element(true, t, d);
        }
        weights.push_back(std::exp(dot * static_cast<double>(c.scale) * mutation));
        sum += weights.back();
    }
    const bool by_tiles = c.shape.bits.v < 8;
    for (int d = 0; by_tiles && d < vd; d += 64) {
        weigh_rounded(c, r, d, weights, weight_error, answer);
    }
    const softmax_state& before = c.states[row];
    const double held = std::exp(static_cast<double>(before.max));
    sum += held * static_cast<double>(before.sum);
    for (int d = 0; d < vd; ++d) {
        const std::size_t i = attention_case::size(r, vd) + static_cast<std::size_t>(d);
        double& value = answer.out[static_cast<std::size_t>(d)];
        value += held * static_cast<double>(c.out[i]);
        for (int t = c.begin[row]; !by_tiles && t < c.end[row]; ++t) {
            value += weights[static_cast<std::size_t>(t - c.begin[row])] * c.element(false, t, d);
        }
        value /= sum;
        double& slack = answer.slack[static_cast<std::size_t>(d)];
        slack = (slack + std::abs(value) * answer.sum_slack) / sum;
    }
    return answer;
}

/// Largest error over all rows, as a part of the largest value.
double attention_error(attention_case& c, double mutation) {
    const auto got = c.run(scalar(), 0, c.shape.count);
    std::unique_ptr<test_rows> q;
    if (c.shape.bits.k != 16) {
        q = std::make_unique<test_rows>(scalar(), c.queries.data(), c.shape.count, c.shape.k_dim);
    }
    double worst = 0, largest = 1;
    for (int r = 0; r < c.shape.count; ++r) {
        if (c.begin[static_cast<std::size_t>(r)] >= c.end[static_cast<std::size_t>(r)]) {
            continue;
        }
        const attention_answer wanted = answer_of(c, q.get(), r, mutation);
        for (std::size_t d = 0; d < wanted.out.size(); ++d) {
            const std::size_t i = attention_case::size(r, c.shape.v_dim) + d;
            const double value = static_cast<double>(got.out[i]) /
                                 static_cast<double>(got.states[static_cast<std::size_t>(r)].sum);
            worst = std::max(worst, std::abs(value - wanted.out[d]) - wanted.slack[d]);
            largest = std::max(largest, std::abs(wanted.out[d]));
        }
    }
    return worst / largest;
}

// Terms of a score: |q| and |k| are near 1, but scale * k and bias are rounded apart and reach 6
// each, so their magnitudes add to less than 0.11 * 64 * 8 < 64; a score of 70 roundings errs by at
// most gamma(70) * 64, which is a relative error of p, once above and once below the fraction line.
// The weighted sum, its values and the merge add gamma(90).
const double attention_bound = weight_error + gamma(90);

TEST(scalar_table, attention_matches_double_arithmetic) {
    for (const bit_pair bits : known_bits()) {
        attention_case c({9, 75, 64, 128, bits, true, true}, 21);
        EXPECT_LE(attention_error(c, 1.0), attention_bound) << bits;
        if (bits.v >= 8) {  // below the roundings of weights are more than all others
            EXPECT_GT(attention_error(c, 1.0), 0.0) << bits;
        }
    }
}

TEST(scalar_table, a_wrong_attention_scale_breaks_the_bound) {
    for (const bit_pair bits : known_bits()) {
        attention_case c({9, 75, 64, 128, bits, true, true}, 21);
        EXPECT_GT(attention_error(c, 1.02), attention_bound) << bits;
    }
}

TEST(scalar_table, values_inside_the_key_rows_match_double_arithmetic) {
    for (const bit_pair bits : known_bits()) {
        if (bits.k != bits.v) continue;
        attention_case c({9, 75, 64, 64, bits, true, true, 192}, 22);
        EXPECT_LE(attention_error(c, 1.0), attention_bound) << bits;
        EXPECT_GT(attention_error(c, 1.02), attention_bound) << bits;
        c.misread = 64;
        EXPECT_GT(attention_error(c, 1.0), attention_bound) << bits;
    }
}

TEST(scalar_table, rows_that_see_nothing_keep_their_state) {
    attention_case c({6, 20, 64, 64, 4, false}, 3);
    std::fill(c.end.begin(), c.end.begin() + 3, 0);
    for (const std::string_view name : available_kernels()) {
        const auto after = c.run(*find_kernels(name), 0, 6);
        EXPECT_TRUE(same_bits(after.states.data(), c.states.data(), 3)) << name;
        EXPECT_TRUE(same_bits(after.out.data(), c.out.data(), 3 * 64)) << name;
        EXPECT_FALSE(same_bits(after.out.data() + 192, c.out.data() + 192, 64)) << name;
    }
}

// (15): rounded alike, 64 weights of a third of a level would come to nothing.
TEST(scalar_table, small_weights_of_a_tile_keep_their_sum) {
    const auto level_of = [](int size) { return (size * level_one + (1 << 14)) >> 15; };
    for (int size = 1; size < 32767 - 64; size += 7) {
        int sum = 0;
        for (int t = 0; t < attention_tile_tokens; ++t) sum += level_of(size + level_dither(t));
        const double wanted = attention_tile_tokens * size * level_one / 32768.0;
        ASSERT_NEAR(sum, wanted, 1.0) << size;
    }
    for (int t = 0; t < attention_tile_tokens; ++t) {
        EXPECT_EQ(level_of(level_dither(t)), 0) << "what is hidden stays so";
        EXPECT_LE(std::abs(level_dither(t)), 63);
    }
}

TEST(scalar_table, halves_convert_exactly_and_round_to_even) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const float value = to_float(static_cast<half>(bits));
        if (!std::isnan(value)) {
            ASSERT_EQ(to_half(value), bits);
        }
    }
    EXPECT_EQ(to_half(1.0f + 0x1p-11f), 0x3c00);    // a tie, down to even
    EXPECT_EQ(to_half(1.0f + 0x1.8p-10f), 0x3c02);  // a tie, up to even
    EXPECT_EQ(to_half(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
    EXPECT_EQ(to_half(65519.9f), 0x7bff);
    EXPECT_EQ(to_half(65520.0f), 0x7c00);
    EXPECT_EQ(to_half(0x1p-25f), 0x0000);  // half of the smallest, to even
    EXPECT_EQ(to_half(0x1.1p-25f), 0x0001);
    EXPECT_EQ(to_half(-0x1p-24f), 0x8001);
}

}  // namespace
}  // namespace semantic::engine::kernel_tests

// SPDX-License-Identifier: Apache-2.0
// The rotation of heads and the fitted rounding of keys and values by the scalar table, against
// plain double-precision answers.

#include <gtest/gtest.h>

#include "engine/kernels/kv_constants.hpp"
#include "tests/engine/kernels/support.hpp"

namespace semantic::engine::kernel_tests {
namespace {

const kernel_table& scalar() { return *find_kernels("scalar"); }

std::vector<float> normal_head(int dim, source& random) {
    std::vector<float> x(static_cast<std::size_t>(dim));
    for (float& value : x) value = random.normal();
    return x;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum;
}

/// Row `d` of the Hadamard matrix of a block, column `e`: -1 to the number of bits they share.
double hadamard(std::size_t d, std::size_t e) {
    return __builtin_popcountll(d & e) % 2 == 0 ? 1.0 : -1.0;
}

TEST(kv_rotation, is_signs_then_a_hadamard_transform_of_each_block) {
    source random(31);
    for (const int dim : {16, 64, 80, 96, 128, 192, 256, 512, 576}) {
        const std::vector<float> before = normal_head(dim, random);
        std::vector<float> after = before;
        scalar().rotate(after.data(), dim);
        const auto block = static_cast<std::size_t>(rotation_block(dim));
        for (std::size_t d = 0; d < after.size(); ++d) {
            double sum = 0, magnitude = 0;
            for (std::size_t e = 0; e < block; ++e) {
                const std::size_t from = d / block * block + e;
                const double x = static_cast<double>(before[from]) *
                                 static_cast<double>(rotation_signs[from % 256]);
                sum += hadamard(d % block, e) * x;
                magnitude += std::abs(x);
            }
            const double norm = std::sqrt(static_cast<double>(block));
            // One rounding for each of log2(block) stages, the norm and the product with it.
            EXPECT_LE(std::abs(static_cast<double>(after[d]) - sum / norm),
                      gamma(std::log2(static_cast<double>(block)) + 3) * magnitude / norm)
                << dim << " element " << d;
        }
    }
}

TEST(kv_rotation, blocks_are_the_largest_power_of_two_that_divides_a_head) {
    EXPECT_EQ(rotation_block(64), 64);
    EXPECT_EQ(rotation_block(128), 128);
    EXPECT_EQ(rotation_block(256), 256);
    EXPECT_EQ(rotation_block(576), 64);
    EXPECT_EQ(rotation_block(80), 16);
}

TEST(kv_rotation, keeps_dot_products_and_is_undone_by_rotate_back) {
    source random(32);
    for (const int dim : {64, 96, 128, 192, 256, 576}) {
        const std::vector<float> a = normal_head(dim, random), b = normal_head(dim, random);
        std::vector<float> turned_a = a, turned_b = b;
        scalar().rotate(turned_a.data(), dim);
        scalar().rotate(turned_b.data(), dim);
        const double size = std::sqrt(dot(a, a) * dot(b, b));
        EXPECT_NEAR(dot(turned_a, turned_b), dot(a, b), 1e-5 * size) << dim;
        EXPECT_GT(std::abs(dot(turned_a, b) - dot(a, b)), 1e-3 * size) << dim;
        scalar().rotate_back(turned_a.data(), dim);
        for (std::size_t i = 0; i < a.size(); ++i) {
            EXPECT_NEAR(turned_a[i], a[i], 1e-5f) << dim << " element " << i;
        }
    }
}

TEST(kv_rotation, spreads_one_large_channel_over_its_block) {
    for (const int channel : {0, 5, 63}) {
        std::vector<float> x(128, 0.0f);
        x[static_cast<std::size_t>(channel)] = 100.0f;
        scalar().rotate(x.data(), 128);
        for (const float value : x) EXPECT_NEAR(std::abs(value), 100 / std::sqrt(128.0f), 1e-4f);
    }
}

struct packed_group {
    std::byte row[64];
    half scale = 0, bias = 0;
    double value(int bits, std::size_t i) const {
        return static_cast<double>(to_float(scale)) *
                   packed_level(row, static_cast<std::size_t>(bits), i) +
               static_cast<double>(to_float(bias));
    }
};

packed_group pack(const std::vector<float>& x, int bits, kv_rounding rounding) {
    packed_group made;
    scalar().quantize_kv(x.data(), 64, bits, rounding, made.row, &made.scale, &made.bias);
    return made;
}

double squared_error(const std::vector<float>& x, const packed_group& group, int bits) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double off = group.value(bits, i) - static_cast<double>(x[i]);
        sum += off * off;
    }
    return sum;
}

/// (25) in double, but for the last rounding to f16.
struct double_line {
    double scale, bias;
};
double_line fitted_answer(const std::vector<float>& x, int bits) {
    const double steps = (1 << bits) - 1;
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    const double low = static_cast<double>(*least);
    double_line line{(static_cast<double>(*most) - low) / steps, low};
    for (int fit = 0; fit < 3; ++fit) {
        double a = 0, b = 0, y = 0, z = 0;
        for (const float value : x) {
            const double over = static_cast<double>(value) - low;
            const double level = (static_cast<double>(value) - line.bias) / line.scale;
            const double code = std::clamp(std::nearbyint(level), 0.0, steps);
            a += code;
            b += code * code;
            y += over;
            z += code * over;
        }
        line.scale = (64 * z - a * y) / (64 * b - a * a);
        line.bias = low + (y - line.scale * a) / 64;
    }
    return line;
}

TEST(fitted_kv, scale_and_bias_are_those_of_the_least_squares_line) {
    source random(33);
    for (const int bits : {4, 5, 6, 7, 8}) {
        for (int round = 0; round < 100; ++round) {
            std::vector<float> x = normal_head(64, random);
            for (float& value : x) value += static_cast<float>(round % 5 - 2);
            const auto [scale, bias] = fitted_answer(x, bits);
            const packed_group got = pack(x, bits, kv_rounding::fitted);
            const double size = std::abs(bias) + scale * ((1 << bits) - 1);
            EXPECT_NEAR(static_cast<double>(to_float(got.scale)), scale, scale * 0x1.2p-11);
            // The bias makes up for what f16 took from the scale, and is rounded itself.
            EXPECT_NEAR(static_cast<double>(to_float(got.bias)), bias, size * 0x1.8p-11);
            for (std::size_t i = 0; i < 64; ++i) {
                const double level =
                    (static_cast<double>(x[i]) - static_cast<double>(to_float(got.bias))) /
                    static_cast<double>(to_float(got.scale));
                const double nearest = std::clamp(level, 0.0, (1 << bits) - 1.0);
                EXPECT_LE(
                    std::abs(nearest - packed_level(got.row, static_cast<std::size_t>(bits), i)),
                    0.5 + 1e-3);
            }
        }
    }
}

TEST(fitted_kv, errs_less_than_mlx_on_rotated_rows) {
    source random(34);
    for (const int bits : {4, 5}) {
        double fitted = 0, mlx = 0;
        for (int round = 0; round < 500; ++round) {
            std::vector<float> x = normal_head(64, random);
            scalar().rotate(x.data(), 64);
            fitted += squared_error(x, pack(x, bits, kv_rounding::fitted), bits);
            mlx += squared_error(x, pack(x, bits, kv_rounding::mlx), bits);
        }
        EXPECT_LT(fitted, 0.9 * mlx) << bits;
    }
}

TEST(fitted_kv, elements_that_are_alike_or_beyond_f16_stay_finite) {
    for (const int bits : {4, 5, 6, 7, 8}) {
        for (const float value : {0.0f, -0.0f, 3.0f, 1e-30f, -1e30f, 3e38f}) {
            const std::vector<float> alike(64, value);
            const double wanted = std::clamp(static_cast<double>(value), -65504.0, 65504.0);
            const packed_group group = pack(alike, bits, kv_rounding::fitted);
            for (std::size_t i = 0; i < 64; ++i) {
                EXPECT_NEAR(group.value(bits, i), wanted, std::abs(wanted) * 0x1p-10 + 1e-6);
            }
        }
        std::vector<float> ends(64, -3e38f);
        ends[7] = 3e38f;
        const packed_group group = pack(ends, bits, kv_rounding::fitted);
        EXPECT_NEAR(group.value(bits, 7), 65504.0, 200.0);
        EXPECT_NEAR(group.value(bits, 8), -65504.0, 200.0);
    }
}

// Each element alone at its largest: it must come back at its own place and at no other.
TEST(packed_kv, every_element_has_its_own_bits) {
    for (const int bits : {4, 5, 6, 7, 8}) {
        for (std::size_t i = 0; i < 64; ++i) {
            std::vector<float> x(64, 0.0f);
            x[i] = static_cast<float>((1 << bits) - 1);
            x[(i + 1) % 64] = 1.0f;
            const packed_group group = pack(x, bits, kv_rounding::fitted);
            for (std::size_t j = 0; j < 64; ++j) {
                EXPECT_NEAR(group.value(bits, j), x[j], 0.01) << bits << " " << i << " " << j;
            }
        }
    }
}

}  // namespace
}  // namespace semantic::engine::kernel_tests

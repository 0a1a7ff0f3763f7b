// SPDX-License-Identifier: Apache-2.0
// The KV quantiser against vectors computed by another implementation of the MLX affine rule.

#include <gtest/gtest.h>

#include "storage/files/safetensors.hpp"
#include "tests/engine/kernels/support.hpp"
#include "tests/engine/kernels/table_under_test.hpp"

namespace semantic::engine::kernel_tests {
namespace {

template <class T>
const T* tensor(const storage::safetensors_file& file, const char* name) {
    return reinterpret_cast<const T*>(file.view().tensors.at(name).bytes.data());
}

class quantize_kv : public testing::TestWithParam<std::string> {};

TEST_P(quantize_kv, gives_the_golden_integers_scales_and_biases) {
    const kernel_table* table = table_under_test(GetParam());
    if (table == nullptr) {
        GTEST_SKIP() << "skipped: this CPU does not run " << GetParam();
    }
    auto opened = storage::safetensors_file::open(std::string(SEMANTIC_SOURCE_DIR) +
                                                  "/tests/golden/kv_q4_group64.safetensors");
    ASSERT_TRUE(opened.has_value());
    const storage::safetensors_file& file = *opened;
    const auto* x = tensor<float>(file, "x");
    const auto* packed = tensor<std::uint8_t>(file, "packed");
    const auto* scales = tensor<half>(file, "scales");
    const auto* biases = tensor<half>(file, "biases");
    const auto* wanted = tensor<float>(file, "dequantised");
    for (std::size_t row = 0; row < 64; ++row) {
        std::byte got[64];
        half s[2], b[2];
        table->quantize_kv(x + row * 128, 128, 4, kv_rounding::mlx, got, s, b);
        for (std::size_t i = 0; i < 128; ++i) {
            const std::size_t g = i / 64, at = row * 128 + i;
            ASSERT_EQ(s[g], scales[row * 2 + g]) << row;
            ASSERT_EQ(b[g], biases[row * 2 + g]) << row;
            const unsigned q = std::to_integer<unsigned>(got[i / 2]) >> (i % 2 * 4) & 15u;
            const unsigned golden = packed[row * 64 + i / 2] >> (i % 2 * 4) & 15u;
            const double scale = static_cast<double>(to_float(s[g]));
            const double level =
                (static_cast<double>(x[at]) - static_cast<double>(to_float(b[g]))) / scale;
            if (std::abs(level - std::floor(level) - 0.5) > 1e-4) {
                ASSERT_EQ(q, golden) << "row " << row << " element " << i << " level " << level;
                const double value = scale * q + static_cast<double>(to_float(b[g]));
                ASSERT_NEAR(value, static_cast<double>(wanted[at]), 1e-5 * (1 + std::abs(value)));
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(every_table, quantize_kv,
                         testing::Values("scalar", "avx2", "avxvnni", "avx512"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace semantic::engine::kernel_tests

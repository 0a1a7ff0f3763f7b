// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/rounding_correction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace semantic::engine {
namespace {

constexpr int inputs = 128, outputs = 20, rows = 3;

std::vector<float> numbers(int count, std::uint32_t seed) {
    std::vector<float> out;
    for (int i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        out.push_back(static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0f);
    }
    return out;
}

/// Weights of 8 bits, all with scale 1/64 and bias -2.
class matrix {
  public:
    explicit matrix(std::uint32_t seed)
        : words_(outputs * inputs),
          scales_(outputs * inputs / group_size, 1.0f / 64),
          biases_(scales_.size(), -2.0f) {
        const std::vector<float> random = numbers(outputs * inputs, seed);
        for (std::size_t i = 0; i < random.size(); ++i)
            words_[i] = static_cast<std::byte>((random[i] + 1.0f) * 127.0f);
        packed.kind = weight_kind::q8;
        packed.scales = scale_kind::f32;
        packed.rows = outputs;
        packed.cols = inputs;
        data_ = aligned_buffer<float>(packed.bytes() / sizeof(float));
        auto* out = reinterpret_cast<std::byte*>(data_.data());
        pack_mlx(packed,
                 {words_.data(), reinterpret_cast<const std::byte*>(scales_.data()),
                  reinterpret_cast<const std::byte*>(biases_.data())},
                 0, packed.tiles(), out);
        packed.data = out;
    }
    double times(int row, const float* x) const {
        double sum = 0.0;
        for (int i = 0; i < inputs; ++i) {
            const auto q = std::to_integer<int>(words_[static_cast<std::size_t>(row * inputs + i)]);
            sum += (q / 64.0 - 2.0) * static_cast<double>(x[i]);
        }
        return sum;
    }
    packed_matrix packed;

  private:
    std::vector<std::byte> words_;
    std::vector<float> scales_, biases_;
    aligned_buffer<float> data_;
};

// Two roundings to 127 levels leave 1/127^2 of what none would; without the correction the error is
// some hundred times larger, which the last line holds against a test that sees nothing.
TEST(rounding_correction, gives_back_what_eight_bits_left_out) {
    const matrix a(1), b(2);
    const kernel_table& kernels = *find_kernels("auto");
    const task_runner tasks(1);
    std::vector<float> x = numbers(rows * inputs, 3), y_a(rows * outputs), y_b(rows * outputs);
    const std::vector<float> exact = x;
    aligned_buffer<float> scratch(linear_scratch_floats(rows, inputs));
    const linear_job jobs[] = {{&a.packed, y_a.data(), outputs}, {&b.packed, y_b.data(), outputs}};
    linear(kernels, tasks, jobs, x.data(), rows, inputs, scratch.data());
    const auto worst = [&] {
        double error = 0.0;
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < outputs; ++i) {
                const auto at = static_cast<std::size_t>(row * outputs + i);
                const float* input = exact.data() + row * inputs;
                error = std::max({error, std::abs(a.times(i, input) - static_cast<double>(y_a[at])),
                                  std::abs(b.times(i, input) - static_cast<double>(y_b[at]))});
            }
        }
        return error;
    };
    const double before = worst();
    rounding_correction correction(kernels, tasks, rows, inputs, 2 * outputs);
    correction.add(jobs, x.data(), rows, inputs);
    EXPECT_LT(worst(), 1e-3);
    EXPECT_GT(before, 20 * worst());
}

TEST(rounding_correction, takes_as_many_products_as_a_delta_rule_has) {
    const matrix weights(1);
    const kernel_table& kernels = *find_kernels("auto");
    const task_runner tasks(1);
    const std::vector<float> input = numbers(rows * inputs, 3);
    std::vector<float> alone(rows * outputs), together[4];
    rounding_correction correction(kernels, tasks, rows, inputs, 4 * outputs);
    std::vector<float> x = input;
    const linear_job one = {&weights.packed, alone.data(), outputs};
    correction.add({&one, 1}, x.data(), rows, inputs);
    linear_job jobs[4];
    for (int i = 0; i < 4; ++i) {
        together[i].resize(rows * outputs);
        jobs[i] = {&weights.packed, together[i].data(), outputs};
    }
    x = input;
    correction.add(jobs, x.data(), rows, inputs);
    for (const auto& each : together) EXPECT_EQ(each, alone);
}

}  // namespace
}  // namespace semantic::engine

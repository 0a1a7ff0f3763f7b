// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/product_tape.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/engine/kernels/support.hpp"

namespace semantic::engine {
namespace {

using kernel_tests::make_quant_matrix;
using kernel_tests::same_bits;

constexpr int cols = 128, rows = 5, outputs_a = 48, outputs_b = 20;

/// Two products of one input, as the projections of a layer are.
class taped_products {
  public:
    taped_products()
        : random_(7),
          a_(make_quant_matrix(weight_kind::q8, scale_kind::f16, outputs_a, cols, random_)),
          b_(make_quant_matrix(weight_kind::q4, scale_kind::f16, outputs_b, cols, random_)),
          scratch_(linear_scratch_floats(rows, cols)) {}

    struct outputs {
        std::vector<float> a = std::vector<float>(rows * outputs_a, -1.0f);
        std::vector<float> b = std::vector<float>(rows * outputs_b, -1.0f);
        bool operator==(const outputs& other) const {
            return same_bits(a.data(), other.a.data(), a.size()) &&
                   same_bits(b.data(), other.b.data(), b.size());
        }
    };
    /// `multiplied`: the first row that was.
    outputs run(std::vector<float> x, int* multiplied) {
        outputs y;
        const linear_job jobs[] = {{&a_.packed, y.a.data(), outputs_a},
                                   {&b_.packed, y.b.data(), outputs_b}};
        *multiplied = tape.take_input(tasks_, x.data(), rows, cols);
        linear_from(*find_kernels("auto"), tasks_, jobs, x.data(), *multiplied, rows, cols,
                    scratch_.data());
        tape.take_outputs(tasks_, jobs, *multiplied, rows);
        return y;
    }
    std::vector<float> input() {
        std::vector<float> x(rows * cols);
        random_.fill(x);
        return x;
    }
    product_tape tape;

  private:
    kernel_tests::source random_;
    kernel_tests::test_matrix a_, b_;
    kernel_tests::buffer<float> scratch_;
    const task_runner tasks_{2};
};

TEST(product_tape, an_input_as_recorded_gives_the_recorded_products_and_multiplies_nothing) {
    taped_products products;
    const std::vector<float> x = products.input();
    int first = -1;
    products.tape.record();
    const auto recorded = products.run(x, &first);
    EXPECT_EQ(first, 0);
    products.tape.replay();
    EXPECT_EQ(products.run(x, &first), recorded);
    EXPECT_EQ(first, rows);
}

TEST(product_tape, rows_before_the_first_that_differs_are_the_recorded_ones) {
    taped_products products;
    const std::vector<float> x = products.input();
    int first = -1;
    products.tape.record();
    const auto recorded = products.run(x, &first);
    for (int changed = 0; changed < rows; ++changed) {
        std::vector<float> other = x;
        other[static_cast<std::size_t>(changed * cols + cols - 1)] += 0.5f;
        products.tape.replay();
        const auto replayed = products.run(other, &first);
        EXPECT_EQ(first, changed);
        for (int row = 0; row < rows; ++row) {
            const auto at = static_cast<std::size_t>(row * outputs_a);
            const bool same =
                std::memcmp(&replayed.a[at], &recorded.a[at], outputs_a * sizeof(float)) == 0;
            EXPECT_EQ(same, row != changed) << row << " of " << changed;
        }
    }
}

TEST(product_tape, the_sign_of_a_zero_is_no_difference) {
    taped_products products;
    std::vector<float> x = products.input();
    x[3] = 0.0f;
    int first = -1;
    products.tape.record();
    const auto recorded = products.run(x, &first);
    x[3] = -0.0f;
    products.tape.replay();
    EXPECT_EQ(products.run(x, &first), recorded);
    EXPECT_EQ(first, rows);
}

}  // namespace
}  // namespace semantic::engine

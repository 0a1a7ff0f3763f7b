// SPDX-License-Identifier: Apache-2.0
// The recurrences' kernels: every table as scalar, scalar as double arithmetic, and nothing of
// where a text is cut.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/kernels/support.hpp"
#include "tests/engine/kernels/table_under_test.hpp"

namespace semantic::engine::kernel_tests {
namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A head and some tokens of it.
struct head_case {
    int rows, cols, tokens;
    std::vector<float> state, keys, queries, values, decays, rates, out;

    head_case(int rows_in, int cols_in, int tokens_in, unsigned seed)
        : rows(rows_in), cols(cols_in), tokens(tokens_in) {
        source random(seed);
        const auto fill = [&](std::vector<float>& x, int count, float scale) {
            x.resize(static_cast<std::size_t>(count));
            for (float& each : x) each = scale * random.normal();
        };
        fill(state, rows * cols, 1.0f);
        fill(keys, tokens * rows, 0.3f);
        fill(queries, tokens * rows, 0.3f);
        fill(values, tokens * cols, 1.0f);
        fill(decays, tokens, 1.0f);
        fill(rates, tokens, 1.0f);
        out.resize(static_cast<std::size_t>(tokens * cols));
        for (float& each : decays) each = 1.0f / (1.0f + std::exp(each - 2.0f));
        for (float& each : rates) each = 1.0f / (1.0f + std::exp(each));
    }

    recurrent_head head(int first, int count) {
        recurrent_head h;
        h.from = h.to = state.data();
        h.keys = keys.data() + first * rows;
        h.queries = queries.data() + first * rows;
        h.values = values.data() + first * cols;
        h.decays = decays.data() + first;
        h.rates = rates.data() + first;
        h.out = out.data() + first * cols;
        h.rows = rows;
        h.cols = cols;
        h.tokens = count;
        h.key_stride = static_cast<std::size_t>(rows);
        h.value_stride = h.out_stride = static_cast<std::size_t>(cols);
        h.number_stride = 1;
        return h;
    }
};

struct head_shape {
    int rows, cols;
};
constexpr head_shape shapes[] = {{1, 1}, {5, 7}, {8, 16}, {64, 64}, {3, 129}, {128, 128}, {16, 80}};

using kernel = void (*kernel_table::*)(const recurrent_head&);
constexpr kernel kernels[] = {&kernel_table::delta_rule, &kernel_table::state_space};

class recurrence_of : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        table_ = table_under_test(GetParam());
        if (table_ == nullptr) GTEST_SKIP() << "this CPU has no " << GetParam();
    }
    const kernel_table* table_ = nullptr;
    const kernel_table& scalar_ = *find_kernels("scalar");
};

TEST_P(recurrence_of, heads_equal_scalar) {
    for (const kernel each : kernels) {
        for (const auto [rows, cols] : shapes) {
            head_case a(rows, cols, 5, 3), b = a;
            (scalar_.*each)(a.head(0, 5));
            (table_->*each)(b.head(0, 5));
            EXPECT_TRUE(same_bits(a.out, b.out)) << rows << " x " << cols;
            EXPECT_TRUE(same_bits(a.state, b.state)) << rows << " x " << cols;
        }
    }
}

TEST_P(recurrence_of, a_text_that_is_cut_gives_the_same_bits) {
    for (const kernel each : kernels) {
        head_case whole(64, 80, 9, 4), parts = whole, apart = whole;
        (table_->*each)(whole.head(0, 9));
        for (int token = 0; token < 9; ++token) (table_->*each)(parts.head(token, 1));
        EXPECT_TRUE(same_bits(whole.out, parts.out));
        EXPECT_TRUE(same_bits(whole.state, parts.state));
        // From one buffer to another, which leaves the first as it was.
        const std::vector<float> before = apart.state;
        std::vector<float> after(before.size());
        recurrent_head head = apart.head(0, 9);
        head.to = after.data();
        (table_->*each)(head);
        EXPECT_TRUE(same_bits(whole.out, apart.out));
        EXPECT_TRUE(same_bits(whole.state, after));
        EXPECT_TRUE(same_bits(before, apart.state));
    }
}

TEST_P(recurrence_of, convolutions_equal_scalar) {
    source random(5);
    for (const int channels : {1, 15, 16, 17, 96, 100}) {
        for (const int taps : {1, 3, 4}) {
            const auto n = static_cast<std::size_t>(channels);
            std::vector<float> columns(n * static_cast<std::size_t>(taps)), weights(columns),
                bias(n), a(n), b(n);
            for (auto* each : {&columns, &weights, &bias})
                for (float& x : *each) x = random.normal();
            std::vector<const float*> read;
            for (int tap = 0; tap < taps; ++tap)
                read.push_back(columns.data() + static_cast<std::size_t>(tap) * n);
            for (const bool activated : {false, true}) {
                for (const float* with_bias :
                     {static_cast<const float*>(nullptr), static_cast<const float*>(bias.data())}) {
                    scalar_.convolve(read.data(), taps, weights.data(), with_bias, n, activated,
                                     a.data());
                    table_->convolve(read.data(), taps, weights.data(), with_bias, n, activated,
                                     b.data());
                    EXPECT_TRUE(same_bits(a, b)) << channels << " channels, " << taps << " taps";
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(every_table, recurrence_of,
                         testing::Values("scalar", "avx2", "avxvnni", "avx512"),
                         [](const auto& each) { return std::string(each.param); });

// Bound: each token adds a few roundings of numbers of this size to an element.
TEST(scalar_recurrence, is_the_delta_rule_in_double) {
    head_case c(64, 16, 12, 6);
    std::vector<double> state(c.state.begin(), c.state.end());
    find_kernels("scalar")->delta_rule(c.head(0, 12));
    for (int t = 0; t < 12; ++t) {
        for (int j = 0; j < 16; ++j) {
            const auto at = [&](int i) -> double& {
                return state[static_cast<std::size_t>(i * 16 + j)];
            };
            const auto key = [&](int i) {
                return static_cast<double>(c.keys[static_cast<std::size_t>(t * 64 + i)]);
            };
            double known = 0.0, out = 0.0;
            for (int i = 0; i < 64; ++i) {
                at(i) *= static_cast<double>(c.decays[static_cast<std::size_t>(t)]);
                known += at(i) * key(i);
            }
            const double change =
                (static_cast<double>(c.values[static_cast<std::size_t>(t * 16 + j)]) - known) *
                static_cast<double>(c.rates[static_cast<std::size_t>(t)]);
            for (int i = 0; i < 64; ++i) {
                at(i) += key(i) * change;
                out += at(i) * static_cast<double>(c.queries[static_cast<std::size_t>(t * 64 + i)]);
            }
            EXPECT_NEAR(static_cast<double>(c.out[static_cast<std::size_t>(t * 16 + j)]), out,
                        1e-3 * (1.0 + std::fabs(out)));
        }
    }
}

TEST(scalar_recurrence, of_a_state_space_adds_key_times_value) {
    head_case c(2, 1, 1, 7);
    c.state = {1.0f, 2.0f};
    c.keys = {3.0f, 5.0f};
    c.queries = {7.0f, 11.0f};
    c.values = {2.0f};
    c.decays = {0.5f};
    find_kernels("scalar")->state_space(c.head(0, 1));
    EXPECT_EQ(c.state, (std::vector<float>{6.5f, 11.0f}));
    EXPECT_EQ(c.out[0], 6.5f * 7.0f + 11.0f * 11.0f);
}

TEST(scalar_convolution, weighs_the_oldest_column_first) {
    const float old[] = {2.0f}, now[] = {3.0f}, weights[] = {10.0f, 100.0f}, bias[] = {1.0f};
    const float* columns[] = {old, now};
    float out = 0.0f;
    find_kernels("scalar")->convolve(columns, 2, weights, bias, 1, false, &out);
    EXPECT_EQ(out, 321.0f);
}

}  // namespace
}  // namespace semantic::engine::kernel_tests

// SPDX-License-Identifier: Apache-2.0
// The mixture of experts against the same sums in double, row by row.

#include "engine/model/feed_forward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "engine/kernels/gemm.hpp"

namespace semantic::engine {
namespace {

constexpr int hidden = 64, inner = 32, experts = 5, rows = 9;

std::vector<float> numbers(int count, std::uint32_t seed) {
    std::vector<float> out;
    for (int i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        out.push_back(static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0f);
    }
    return out;
}

/// A float matrix as the kernels read it and as a reader does.
class matrix {
  public:
    matrix(int row_count, int cols, std::uint32_t seed) : values(numbers(row_count * cols, seed)) {
        packed.kind = weight_kind::f32;
        packed.rows = row_count;
        packed.cols = cols;
        data_ = aligned_buffer<float>(packed.bytes() / sizeof(float));
        auto* out = reinterpret_cast<std::byte*>(data_.data());
        pack_float(packed, std::as_bytes(std::span(values)).data(), 0, packed.tiles(), out);
        packed.data = out;
    }
    double times(int row, const double* x) const {
        double sum = 0.0;
        for (int i = 0; i < packed.cols; ++i) {
            sum +=
                static_cast<double>(values[static_cast<std::size_t>(row * packed.cols + i)]) * x[i];
        }
        return sum;
    }
    packed_matrix packed;
    std::vector<float> values;

  private:
    aligned_buffer<float> data_;
};

struct expert {
    explicit expert(std::uint32_t seed)
        : gate(inner, hidden, seed), up(inner, hidden, seed + 1), down(hidden, inner, seed + 2) {}
    gated_weights weights() const {
        return {{gate.packed, {}}, {up.packed, {}}, {down.packed, {}}};
    }
    void add(const double* x, double weight, double* y) const {
        double between[inner];
        for (int i = 0; i < inner; ++i) {
            const double g = gate.times(i, x);
            between[i] = g / (1.0 + std::exp(-g)) * up.times(i, x);
        }
        for (int i = 0; i < hidden; ++i) y[i] += weight * down.times(i, between);
    }
    matrix gate, up, down;
};

struct mixture_case {
    bool softmax_over_all, shared;
    float scale;
};

class mixture : public testing::TestWithParam<mixture_case> {};

TEST_P(mixture, adds_up_the_chosen_experts_by_their_weights) {
    const mixture_case& c = GetParam();
    const matrix router(experts, hidden, 1);
    std::vector<expert> all;
    for (int i = 0; i < experts; ++i) all.emplace_back(static_cast<std::uint32_t>(100 + 10 * i));
    const expert shared(900);
    layer_weights w;
    w.router.matrix = router.packed;
    for (const expert& each : all) w.experts.push_back(each.weights());
    if (c.shared) w.mlp = shared.weights();

    model_config config;
    config.hidden = hidden;
    config.intermediate = inner;
    config.mixture.experts = experts;
    config.mixture.per_token = 2;
    config.mixture.intermediate = inner;
    config.mixture.softmax_over_all = c.softmax_over_all;
    config.mixture.scale = c.scale;
    const task_runner tasks(1);
    feed_forward forward(config, *find_kernels("auto"), tasks, rows, config.mixture.experts > 0);
    std::vector<float> x = numbers(rows * hidden, 7);
    std::vector<float> y(x.size());
    forward.run(w, x.data(), rows, y.data(), nullptr);

    for (int row = 0; row < rows; ++row) {
        double input[hidden], expected[hidden] = {}, scores[experts], sum = 0.0;
        std::copy_n(x.begin() + row * hidden, hidden, input);
        int order[experts];
        std::iota(order, order + experts, 0);
        for (int i = 0; i < experts; ++i) scores[i] = std::exp(router.times(i, input));
        std::sort(order, order + experts, [&](int a, int b) { return scores[a] > scores[b]; });
        for (int i = 0; i < (c.softmax_over_all ? experts : 2); ++i) sum += scores[order[i]];
        for (int i = 0; i < 2; ++i) {
            all[static_cast<std::size_t>(order[i])].add(
                input, scores[order[i]] / sum * static_cast<double>(c.scale), expected);
        }
        if (c.shared) shared.add(input, 1.0, expected);
        for (int i = 0; i < hidden; ++i) {
            EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(row * hidden + i)]),
                        expected[i], 1e-3);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(cases, mixture,
                         testing::Values(mixture_case{false, false, 1.0f},
                                         mixture_case{true, false, 1.0f},
                                         mixture_case{true, true, 2.5f}),
                         [](const auto& each) {
                             return std::string(each.param.softmax_over_all ? "over_all"
                                                                            : "over_chosen") +
                                    (each.param.shared ? "_with_shared_experts" : "");
                         });

// Equal scores: the experts with the lower numbers.
TEST(feed_forward, ties_go_to_the_first_experts) {
    matrix router(experts, hidden, 1);
    std::vector<float> x(hidden, 0.0f);
    std::vector<expert> all;
    layer_weights w;
    w.router.matrix = router.packed;
    for (int i = 0; i < experts; ++i) {
        all.emplace_back(static_cast<std::uint32_t>(100 + 10 * i));
    }
    for (int i = 0; i < experts; ++i) {
        w.experts.push_back(all[static_cast<std::size_t>(i)].weights());
        w.experts.back().down.bias.assign(hidden, static_cast<float>(1 << i));
    }
    model_config config;
    config.hidden = hidden;
    config.intermediate = inner;
    config.mixture.experts = experts;
    config.mixture.per_token = 2;
    config.mixture.intermediate = inner;
    const task_runner tasks(1);
    feed_forward forward(config, *find_kernels("auto"), tasks, 1, config.mixture.experts > 0);
    std::vector<float> y(hidden);
    forward.run(w, x.data(), 1, y.data(), nullptr);
    EXPECT_EQ(y[0], 1.5f);  // (1 + 2) / 2
}

// Three groups of two, of which the first has the third best expert but the worst best one. Method:
// an expert's bias says which it is, a zero input leaves nothing else.
TEST(feed_forward, only_experts_of_the_best_groups_are_chosen) {
    constexpr int six = 6;
    const matrix router(six, hidden, 1);
    std::vector<float> x(hidden, 0.0f);
    std::vector<expert> all;
    layer_weights w;
    w.router.matrix = router.packed;
    w.router.bias = {2.0f, 1.0f, 4.0f, 0.0f, -1.0f, 5.0f};
    for (int i = 0; i < six; ++i) all.emplace_back(static_cast<std::uint32_t>(100 + 10 * i));
    for (int i = 0; i < six; ++i) {
        w.experts.push_back(all[static_cast<std::size_t>(i)].weights());
        w.experts.back().down.bias.assign(hidden, static_cast<float>(1 << 4 * i));
    }
    model_config config;
    config.hidden = hidden;
    config.intermediate = inner;
    config.mixture.experts = six;
    config.mixture.per_token = 3;
    config.mixture.intermediate = inner;
    config.mixture.softmax_over_all = true;
    config.mixture.groups = 3;
    config.mixture.groups_per_token = 2;
    const task_runner tasks(1);
    feed_forward forward(config, *find_kernels("auto"), tasks, 1, config.mixture.experts > 0);
    std::vector<float> y(hidden);
    forward.run(w, x.data(), 1, y.data(), nullptr);
    double sum = 0.0, expected = 0.0;
    for (const float score : w.router.bias) sum += std::exp(static_cast<double>(score));
    for (const int chosen : {5, 2, 3}) {  // of all groups it would be 5, 2 and 0
        expected += std::exp(static_cast<double>(w.router.bias[static_cast<std::size_t>(chosen)])) /
                    sum * (1 << 4 * chosen);
    }
    EXPECT_NEAR(static_cast<double>(y[0]), expected, 1e-5 * expected);
}

}  // namespace
}  // namespace semantic::engine

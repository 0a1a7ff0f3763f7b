// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/query_moments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/model/heads/key_shaping.hpp"
#include "engine/model/heads/rope.hpp"

namespace semantic::engine {
namespace {

constexpr int dim = 64;
constexpr int positions = 512;

/// Uniform in -1 to 1.
struct noise {
    std::uint32_t seed;
    float next() {
        seed = seed * 1664525u + 1013904223u;
        return static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0f;
    }
};

const kernel_table& kernels() { return *find_kernels("scalar"); }

/// Queries that look in few directions before rope, as those of models do.
std::vector<std::vector<float>> some_queries(int count) {
    noise random{5};
    std::vector<std::vector<float>> queries(static_cast<std::size_t>(count));
    for (auto& query : queries) {
        const float common = 1.0f + 0.3f * random.next();
        for (int i = 0; i < dim; ++i)
            query.push_back((i % 8 == 0 ? 3.0f : 0.2f) * random.next() +
                            (i > 56 ? 2.0f * common : 0.0f));
    }
    return queries;
}

rope_parameters some_rope() {
    rope_parameters rope;
    rope.theta = 10000.0;
    return rope;
}

std::vector<float> feedback_of(const std::vector<std::vector<float>>& queries) {
    query_moments moments(dim);
    for (const auto& query : queries) moments.add(query.data());
    std::vector<float> feedback(key_shaping::each(dim));
    moments.write_feedback(some_rope(), positions, kernels(), feedback);
    return feedback;
}

/// As kernel_table::quantize_kv_shaped takes it.
std::vector<float> whole(const std::vector<float>& feedback) {
    std::vector<float> matrix(static_cast<std::size_t>(dim * dim));
    auto from = feedback.begin();
    for (int row = 0; row < dim; ++row)
        for (int column = row + 1; column < dim; ++column)
            matrix[static_cast<std::size_t>(row * dim + column)] = *from++;
    return matrix;
}

/// A key's error, of 4 bits by `feedback`; the lowest nibble of byte i / 2 is element i.
std::vector<float> error_of(const std::vector<float>& key, const std::vector<float>& feedback) {
    std::byte row[dim / 2];
    half scale, bias;
    const shaped_key shaped = {key.data(), feedback.data(), row, &scale, &bias};
    kernels().quantize_kv_shaped(&shaped, 1, dim, 4);
    std::vector<float> error;
    for (int i = 0; i < dim; ++i) {
        const int code = static_cast<int>(row[i / 2]) >> (i % 2 * 4) & 15;
        error.push_back(std::fma(to_float(scale), static_cast<float>(code), to_float(bias)) -
                        key[static_cast<std::size_t>(i)]);
    }
    return error;
}

/// Of the products of turned and rotated queries with the errors of some keys.
double mean_square(const std::vector<std::vector<float>>& queries,
                   const std::vector<float>& feedback) {
    noise random{9};
    const std::vector<float> frequencies = rope_frequencies(some_rope(), dim);
    double sum = 0.0;
    int count = 0;
    for (int k = 0; k < 40; ++k) {
        std::vector<float> key;
        for (int i = 0; i < dim; ++i) key.push_back(random.next() + random.next());
        const std::vector<float> error = error_of(key, feedback);
        for (std::size_t q = 0; q < queries.size(); ++q) {
            std::vector<float> query = queries[q], cosines, sines;
            for (const float frequency : frequencies) {
                const double angle =
                    static_cast<double>(frequency) *
                    static_cast<double>((q * 37 + static_cast<std::size_t>(k)) % positions);
                cosines.push_back(static_cast<float>(std::cos(angle)));
                sines.push_back(static_cast<float>(std::sin(angle)));
            }
            kernels().rope(query.data(), cosines.data(), sines.data(), dim);
            kernels().rotate(query.data(), dim);
            double product = 0.0;
            for (std::size_t i = 0; i < error.size(); ++i)
                product += static_cast<double>(query[i]) * static_cast<double>(error[i]);
            sum += product * product;
            ++count;
        }
    }
    return sum / count;
}

TEST(query_moments, errors_of_shaped_keys_are_half_of_what_queries_saw_or_less) {
    const auto queries = some_queries(300);
    const double plain =
        mean_square(queries, std::vector<float>(static_cast<std::size_t>(dim * dim)));
    EXPECT_LT(mean_square(queries, whole(feedback_of(queries))), 0.5 * plain);
}

TEST(query_moments, every_share_is_a_number_that_f16_has) {
    for (const float share : feedback_of(some_queries(100)))
        ASSERT_EQ(share, to_float(to_half(share)));
}

TEST(query_moments, queries_that_look_everywhere_alike_shape_nothing) {
    std::vector<std::vector<float>> queries;
    for (std::size_t i = 0; i < dim; ++i) {
        queries.emplace_back(dim);
        queries.back()[i] = 2.0f;
    }
    for (const float share : feedback_of(queries)) ASSERT_LT(std::fabs(share), 1e-5f);
}

TEST(query_moments, no_queries_shape_nothing) {
    for (const float share : feedback_of({})) ASSERT_EQ(share, 0.0f);
}

}  // namespace
}  // namespace semantic::engine

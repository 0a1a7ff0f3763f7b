// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/query_moments.hpp"

#include <algorithm>
#include <utility>

#include "engine/model/heads/rope.hpp"

namespace semantic::engine {

namespace {

/// This share of the diagonal's mean is added to the diagonal: directions in which the few hundred
/// measured queries have no component may matter to later queries.
constexpr double doubt = 0.02;

}  // namespace

query_moments::query_moments(int dim)
    : dim_(dim), sums_(static_cast<std::size_t>(dim) * static_cast<std::size_t>(dim)) {}

void query_moments::add(const float* query) {
    for (int row = 0; row < dim_; ++row) {
        const auto by = static_cast<double>(query[row]);
        double* sums = &at(row, 0);
        for (int column = 0; column <= row; ++column)
            sums[column] += by * static_cast<double>(query[column]);
    }
}

void query_moments::write_feedback(const rope_parameters& rope, int positions,
                                   const kernel_table& kernels, std::span<float> out) {
    for (int row = 0; row < dim_; ++row)
        for (int column = 0; column < row; ++column) at(column, row) = at(row, column);
    apply_mean_rope(rope, positions);
    rotate(kernels);
    double trace = 0.0;
    for (int i = 0; i < dim_; ++i) trace += at(i, i);
    for (int i = 0; i < dim_; ++i) at(i, i) += doubt * trace / dim_;
    // Factors C = U D U' (U: ones in the diagonal, zeros below it) from the last column on; each
    // column of U overwrites that of C.
    for (int j = dim_ - 1; j >= 0; --j) {
        // 0 only if no query was added: then nothing is shaped.
        const double inverse = at(j, j) > 0.0 ? 1.0 / at(j, j) : 0.0;
        for (int row = 0; row < j; ++row) {
            const double share = at(j, row) * inverse;
            for (int column = 0; column <= row; ++column) at(row, column) -= share * at(j, column);
        }
        for (int row = 0; row < j; ++row) at(row, j) = at(j, row) * inverse;
    }
    auto to = out.begin();
    for (int row = 0; row < dim_; ++row)
        for (int column = row + 1; column < dim_; ++column) {
            // 65504 is the largest number of f16, as which the numbers are stored.
            const double share = std::clamp(at(row, column), -65504.0, 65504.0);
            *to++ = to_float(to_half(static_cast<float>(share)));
        }
}

/// Replaces the moments of queries before rope by those after rope, averaged over `positions`. Rope
/// rotates a pair of elements z = x[i] + j x[i + dim / 2] at position p by e^(j f p), with f the
/// pair's frequency. So for two pairs a and b, E[z_a z_b*] is rotated by fa - fb ("like") and
/// E[z_a z_b] by fa + fb ("other"). Elements that do not rotate count as pairs of frequency 0.
void query_moments::apply_mean_rope(const rope_parameters& rope, int positions) {
    const int rotated = rope.rotated(dim_), rest = dim_ - rotated;
    std::vector<float> frequencies = rope_frequencies(rope, rotated);
    const int pairs = dim_ / 2, turning = static_cast<int>(frequencies.size());
    frequencies.resize(static_cast<std::size_t>(pairs));
    const auto first = [&](int pair) { return pair < turning ? pair : pair + turning; };
    const auto second = [&](int pair) {
        return first(pair) + (pair < turning ? rotated : rest) / 2;
    };
    for (int a = 0; a < pairs; ++a) {
        for (int b = 0; b < pairs; ++b) {
            const auto fa = static_cast<double>(frequencies[static_cast<std::size_t>(a)]);
            const auto fb = static_cast<double>(frequencies[static_cast<std::size_t>(b)]);
            const auto [cos_less, sin_less] = mean_turn(fa - fb, positions);
            const auto [cos_more, sin_more] = mean_turn(fa + fb, positions);
            double &xx = at(first(a), first(b)), &yy = at(second(a), second(b)),
                   &xy = at(first(a), second(b)), &yx = at(second(a), first(b));
            const double like = xx + yy, like_j = yx - xy, other = xx - yy, other_j = xy + yx;
            const double like_re = like * cos_less - like_j * sin_less;
            const double like_im = like * sin_less + like_j * cos_less;
            const double other_re = other * cos_more - other_j * sin_more;
            const double other_im = other * sin_more + other_j * cos_more;
            xx = (like_re + other_re) / 2.0;
            yy = (like_re - other_re) / 2.0;
            xy = (other_im - like_im) / 2.0;
            yx = (other_im + like_im) / 2.0;
        }
    }
}

/// Replaces the moments by those of queries that kernel_table::rotate() has rotated: applies it to
/// all rows, then to all columns.
void query_moments::rotate(const kernel_table& kernels) {
    std::vector<float> row(static_cast<std::size_t>(dim_));
    for (const bool transposed : {false, true}) {
        for (int i = 0; i < dim_; ++i) {
            for (int k = 0; k < dim_; ++k)
                row[static_cast<std::size_t>(k)] =
                    static_cast<float>(transposed ? at(k, i) : at(i, k));
            kernels.rotate(row.data(), dim_);
            for (int k = 0; k < dim_; ++k)
                (transposed ? at(k, i) : at(i, k)) =
                    static_cast<double>(row[static_cast<std::size_t>(k)]);
        }
    }
}

}  // namespace semantic::engine

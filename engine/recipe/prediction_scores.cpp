// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/prediction_scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

namespace {

/// Standard error of a mean, from the sums of values and of their squares.
double error_of_mean(double sum, double squares, int count) {
    if (count < 2) return 0.0;
    const double mean = sum / count;
    return std::sqrt(std::max(squares / count - mean * mean, 0.0) / (count - 1));
}

constexpr std::size_t piece = 1024;  // logits at a time: their exponentials stay in L1

/// Calls body(begin, count) for consecutive pieces of `all` elements.
template <class Body>
void in_pieces(std::size_t all, Body&& body) {
    for (std::size_t begin = 0; begin < all; begin += piece)
        body(begin, std::min(piece, all - begin));
}

/// out[i] = exp(x[i] - less), with the vectorised kernel: a vocabulary has 150,000 entries.
void exp_less(std::span<const float> x, float less, float* out) {
    static const kernel_table& kernels = *find_kernels("auto");
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] - less;
    kernels.exp(out, out, x.size());
}

/// A sum in several lanes, so that an addition need not wait for the one before it.
class lane_sums {
  public:
    template <class Value>
    void add(std::size_t count, Value&& value) {
        std::size_t i = 0;
        for (; i + lanes <= count; i += lanes)
            for (std::size_t lane = 0; lane < lanes; ++lane) sums_[lane] += value(i + lane);
        for (; i < count; ++i) sums_[i % lanes] += value(i);
    }
    double total() const { return std::accumulate(sums_, sums_ + lanes, 0.0); }

  private:
    static constexpr std::size_t lanes = 8;
    double sums_[lanes] = {};
};

}  // namespace

prediction read_logits(std::span<const float> logits) {
    const auto top = std::max_element(logits.begin(), logits.end());
    lane_sums sum;
    in_pieces(logits.size(), [&](std::size_t begin, std::size_t count) {
        float shares[piece];
        exp_less(logits.subspan(begin, count), *top, shares);
        sum.add(count, [&](std::size_t i) { return static_cast<double>(shares[i]); });
    });
    return {*top + std::log(sum.total()), static_cast<storage::token_id>(top - logits.begin())};
}

position_score compare(std::span<const float> reference, const prediction& of_reference,
                       std::span<const float> logits, storage::token_id next) {
    const prediction own = read_logits(logits);
    const auto at = static_cast<std::size_t>(next);
    const double shift = own.log_sum - of_reference.log_sum;
    const auto log_sum = static_cast<float>(of_reference.log_sum);
    lane_sums divergence;
    in_pieces(logits.size(), [&](std::size_t begin, std::size_t count) {
        float shares[piece];
        const float* from = reference.data() + begin;
        const float* to = logits.data() + begin;
        exp_less({from, count}, log_sum, shares);
        divergence.add(count, [&](std::size_t i) {
            return static_cast<double>(shares[i]) *
                   (static_cast<double>(from[i]) - static_cast<double>(to[i]) + shift);
        });
    });
    return {own.log_sum - logits[at], of_reference.log_sum - reference[at],
            // Rounding may make a divergence of almost 0 negative.
            std::max(divergence.total(), 0.0), own.top == of_reference.top};
}

void score_sum::add(const position_score& score) {
    const double difference = score.loss - score.reference_loss;
    positions_ += 1;
    same_top_ += score.same_top ? 1 : 0;
    loss_ += score.loss;
    loss_squares_ += score.loss * score.loss;
    difference_ += difference;
    difference_squares_ += difference * difference;
    divergence_ += score.divergence;
    divergence_squares_ += score.divergence * score.divergence;
}

double score_sum::perplexity() const { return std::exp(loss_ / std::max(positions_, 1)); }

double score_sum::perplexity_error() const {
    return error_of_mean(loss_, loss_squares_, positions_);
}

double score_sum::change() const { return std::expm1(difference_ / std::max(positions_, 1)); }

double score_sum::change_error() const {
    return (1.0 + change()) * error_of_mean(difference_, difference_squares_, positions_);
}

double score_sum::divergence_mean() const { return divergence_ / std::max(positions_, 1); }

double score_sum::divergence_error() const {
    return error_of_mean(divergence_, divergence_squares_, positions_);
}

double score_sum::same_top_share() const {
    return static_cast<double>(same_top_) / std::max(positions_, 1);
}

double quantile(std::vector<float> values, double share) {
    if (values.empty()) return 0.0;
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::ptrdiff_t>(place);
    std::nth_element(values.begin(), values.begin() + below, values.end());
    const double low = values[static_cast<std::size_t>(below)];
    if (static_cast<std::size_t>(below) + 1 == values.size()) return low;
    const double high = *std::min_element(values.begin() + below + 1, values.end());
    return low + (place - static_cast<double>(below)) * (high - low);
}

}  // namespace semantic::engine

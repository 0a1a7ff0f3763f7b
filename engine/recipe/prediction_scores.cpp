#include "engine/recipe/prediction_scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace semantic::engine {

namespace {

/// Standard error of a mean, from the sums of values and of their squares.
double error_of_mean(double sum, double squares, int count) {
    if (count < 2) return 0.0;
    const double mean = sum / count;
    return std::sqrt(std::max(squares / count - mean * mean, 0.0) / (count - 1));
}

}  // namespace

prediction read_logits(std::span<const float> logits) {
    const auto top = std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(logit - *top);
    return {*top + std::log(sum), static_cast<storage::token_id>(top - logits.begin())};
}

position_score compare(std::span<const float> reference, const prediction& of_reference,
                       std::span<const float> logits, storage::token_id next) {
    const prediction own = read_logits(logits);
    const auto at = static_cast<std::size_t>(next);
    const double shift = own.log_sum - of_reference.log_sum;
    const auto log_sum = static_cast<float>(of_reference.log_sum);
    double divergence = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i)
        divergence += std::exp(reference[i] - log_sum) *
                      (static_cast<double>(reference[i]) - logits[i] + shift);
    return {own.log_sum - logits[at], of_reference.log_sum - reference[at],
            std::max(divergence, 0.0), own.top == of_reference.top};
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

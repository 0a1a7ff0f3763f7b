// SPDX-License-Identifier: Apache-2.0
#pragma once
// How well a model predicts a text, and how much that changes against a reference: perplexity and
// Kullback-Leibler divergence over pairs of logits. Pure arithmetic. Thread: any.

#include <span>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

/// What the logits of one position say.
struct prediction {
    double log_sum = 0.0;     // log of the sum of their exponentials
    storage::token_id top{};  // the most likely token, the first of several
};
prediction read_logits(std::span<const float> logits);

/// One position: how much a form of the model differs from the reference, which read the same text.
struct position_score {
    double loss = 0.0;            // -log of the probability of the token that comes; natural
    double reference_loss = 0.0;  // the reference's
    double divergence = 0.0;      // KL(reference || form), natural
    bool same_top = true;
};

/// `next` is the token that comes. Requires: logits of one vocabulary, `next` inside it.
position_score compare(std::span<const float> reference, const prediction& of_reference,
                       std::span<const float> logits, storage::token_id next);

/// Sums over positions.
class score_sum {
  public:
    void add(const position_score& score);

    int positions() const noexcept { return positions_; }
    double perplexity() const;
    /// Relative standard error of the perplexity, over positions.
    double perplexity_error() const;
    /// Of the perplexity against the reference's: 0.01 is one per cent more.
    double change() const;
    /// Standard error of change() over the positions' differences, so that what is hard to predict
    /// for both counts in neither.
    double change_error() const;
    double divergence_mean() const;
    /// Standard error of divergence_mean(), over positions.
    double divergence_error() const;
    double same_top_share() const;
    /// Positions whose most likely token is another one.
    int other_tops() const noexcept { return positions_ - same_top_; }

  private:
    int positions_ = 0;
    int same_top_ = 0;
    double loss_ = 0.0, loss_squares_ = 0.0;
    double difference_ = 0.0, difference_squares_ = 0.0;
    double divergence_ = 0.0, divergence_squares_ = 0.0;
};

/// The value below which `share` of the values lie, between two of them in proportion; 0 of none.
double quantile(std::vector<float> values, double share);

}  // namespace semantic::engine

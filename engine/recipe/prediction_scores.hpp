// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how well a model predicts a text, and how much its predictions differ from those of a
// reference: perplexity and Kullback-Leibler divergence over pairs of logits. Pure arithmetic.
// Thread: any.

#include <span>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

/// The summary of the logits of one position.
struct prediction {
    double log_sum = 0.0;     // log of the sum of their exponentials
    storage::token_id top{};  // the most likely token, the first of several
};
/// Summarises the logits [vocabulary] of one position.
prediction read_logits(std::span<const float> logits);

/// How much a variant of the model (such as one with a coarser KV recipe) differs from the
/// reference at one position of the same text.
struct position_score {
    double loss = 0.0;            // -log of the probability of the next token; natural
    double reference_loss = 0.0;  // the same for the reference
    double divergence = 0.0;      // KL(reference || variant), natural
    bool same_top = true;
};

/// Compares two logits [vocabulary] of one position. `of_reference`: read_logits(reference);
/// `next`: the token that follows in the text. Requires: equal vocabularies, `next` inside them.
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
    /// The relative change of the perplexity against the reference: 0.01 is one per cent more.
    double change() const;
    /// Standard error of change(), from the differences at each position, so that positions that
    /// are hard to predict for both do not add to it.
    double change_error() const;
    double divergence_mean() const;
    /// Standard error of divergence_mean(), over positions.
    double divergence_error() const;
    double same_top_share() const;
    /// Positions whose most likely token is another one.
    int other_tops() const noexcept { return positions_ - same_top_; }

  private:
    int positions_ = 0;
    int same_top_ = 0;                        // positions with the same most likely token
    double loss_ = 0.0, loss_squares_ = 0.0;  // sums of values and of their squares, here and below
    double difference_ = 0.0, difference_squares_ = 0.0;  // loss less reference_loss
    double divergence_ = 0.0, divergence_squares_ = 0.0;
};

/// The value below which `share` of the values lie, interpolated between two values; 0 if there are
/// none.
double quantile(std::vector<float> values, double share);

}  // namespace semantic::engine

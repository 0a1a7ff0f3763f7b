// SPDX-License-Identifier: Apache-2.0
#pragma once
// Logits to a token. Pure: the same logits, rules, history and position give the same token on any
// thread, in any batch.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/types/generation.hpp"

namespace semantic::engine {

/// The tokens that penalties look back on.
class token_history {
  public:
    explicit token_history(std::span<const token_id> prompt);
    /// The answer has one more token.
    void add(token_id token) { ++answered_[token]; }

    /// How often each token is in the answer; 0 for those that only the prompt has.
    const std::unordered_map<token_id, int>& answered() const { return answered_; }

  private:
    std::unordered_map<token_id, int> answered_;
};

/// In this order: a token of the prompt or the answer has its logit divided by the repetition
/// penalty if it is positive, else multiplied; a token of the answer loses the presence penalty
/// once and the frequency penalty as often as it is there; biases are added. In double precision,
/// rounded once. Tokens outside of `logits` are skipped.
void adjust_logits(std::span<float> logits, const sampling_rules& rules,
                   const token_history& history);

/// Natural logarithms of softmax(logits), in double precision, rounded once: of `chosen`, and of
/// the `top` likeliest, lower ids first among equals. Not a number counts as impossible.
token_scores score_tokens(std::span<const float> logits, token_id chosen, int top);

class sampler {
  public:
    /// `seed` is the request's, or one drawn by the caller when it has none.
    sampler(const sampling_rules& rules, std::uint64_t seed, int vocabulary,
            std::span<const token_id> prompt = {});

    /// Draws the token for absolute position `position` from the adjusted logits. temperature 0:
    /// the largest, lowest id on a tie. Otherwise softmax(logits / temperature), kept to top_k,
    /// then to the smallest set whose mass reaches top_p, then to those at least min_p times as
    /// likely as the likeliest, then one draw from a counter-based generator keyed by (seed,
    /// position).
    token_id sample(std::span<const float> logits, std::uint64_t position);
    /// `token` is part of the answer from now on.
    void take(token_id token);

  private:
    token_id draw(std::span<const float> logits, std::uint64_t position);

    sampling_rules rules_;
    std::uint64_t seed_;
    bool adjusts_;  // whether any rule changes logits
    token_history history_;
    std::vector<float> adjusted_;                         // scratch
    std::vector<std::pair<float, token_id>> candidates_;  // scratch
};

/// The seed of one of several answers to a prompt; the first one's is the request's own.
std::uint64_t seed_of_choice(std::uint64_t seed, int choice) noexcept;

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Draws a token from logits. Pure: the same logits, rules, history and position give the same token
// on any thread and in any batch.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/types/generation.hpp"

namespace semantic::engine {

/// The tokens that penalties apply to: those of the prompt and the answer so far.
class token_history {
  public:
    explicit token_history(std::span<const token_id> prompt);
    /// Counts one more token of the answer.
    void add(token_id token) { ++answered_[token]; }

    /// How often each token is in the answer; 0 for those that only the prompt has.
    const std::unordered_map<token_id, int>& answered() const { return answered_; }

  private:
    std::unordered_map<token_id, int> answered_;
};

/// Applies penalties and biases to `logits` [vocabulary], in this order. Repetition penalty: the
/// logit of a token of prompt or answer is divided by it if positive, otherwise multiplied. A token
/// of the answer loses the presence penalty once, and the frequency penalty for each occurrence.
/// Then biases are added. In double precision, rounded once. Unknown tokens are skipped.
void adjust_logits(std::span<float> logits, const sampling_rules& rules,
                   const token_history& history);

/// Returns: the log probabilities (natural, of softmax(logits)) of `chosen` and of the `top`
/// likeliest tokens, ties in order of ids. NaN counts as probability 0.
token_scores score_tokens(std::span<const float> logits, token_id chosen, int top);

class sampler {
  public:
    /// `seed`: the request's, or one that the caller has drawn. `vocabulary`: number of tokens.
    /// `prompt`: for the repetition penalty.
    sampler(const sampling_rules& rules, std::uint64_t seed, int vocabulary,
            std::span<const token_id> prompt = {});

    /// Draws the token for the absolute position `position`, after penalties and biases. With
    /// temperature 0: the largest logit, lowest id on a tie. Otherwise from softmax(logits /
    /// temperature), restricted to the top_k likeliest tokens, then to the smallest set whose mass
    /// reaches top_p, then to tokens at least min_p times as likely as the likeliest. The random
    /// number depends on seed and position alone.
    token_id sample(std::span<const float> logits, std::uint64_t position);
    /// Counts `token` as part of the answer, for penalties.
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

/// The seed of one of several answers to a prompt, derived from the request's; choice 0 has the
/// request's own.
std::uint64_t seed_of_choice(std::uint64_t seed, int choice) noexcept;

}  // namespace semantic::engine

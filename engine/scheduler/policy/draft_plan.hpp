// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many tokens of a draft a step runs with the token that is known. Pure. A draft's tokens
// cost part of a pass, and spare a whole pass each when they are what would have been drawn. What a
// pass costs with more rows is measured (step_cost), how often drafts of a kind are right is
// counted (draft_trust): drafts are run as far as they make tokens come faster.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/scheduler/policy/step_cost.hpp"

namespace semantic::engine {

/// Tokens of drafts in one step, over all sequences.
constexpr int draft_tokens_most = 15;

enum class draft_rule {
    never,
    where_faster,  // as far as tokens come faster by it
    always,        // whatever it costs: the same steps on every machine
};

/// Rows of one step whose logits are wanted: of so many sequences and a prompt, and of drafts.
constexpr int logit_rows_max(int sequences, draft_rule rule) {
    return sequences + 1 + (rule == draft_rule::never ? 0 : draft_tokens_most);
}

/// What one sequence could run.
struct draft_view {
    int tokens = 0;
    double chance = 0;  // of each token to be right, when those before it are
};

/// `drafts`: of every sequence that decodes in the step. Returns: for each how many of its draft's
/// tokens the step runs, draft_tokens_most together at most, the surest first.
std::vector<int> plan_drafts(std::span<const draft_view> drafts, const step_cost& cost,
                             draft_rule rule = draft_rule::where_faster);

/// How often drafts of one sequence are right, by how many tokens before them were alike.
class draft_trust {
  public:
    /// Of a draft's next token, when those before it are right.
    double chance(std::size_t alike) const noexcept { return chances_[band_of(alike)]; }
    /// `taken` of `run` tokens were right; the rest came after a wrong one.
    void learn(std::size_t alike, int run, int taken) noexcept;
    /// A draft was there and was not run: what is expected of its kind moves back to what is
    /// expected of drafts at first, so that it is tried again some time.
    void forget(std::size_t alike) noexcept;

  private:
    static constexpr std::array<double, 5> at_first{0.4, 0.55, 0.75, 0.85, 0.9};
    static std::size_t band_of(std::size_t alike) noexcept;
    std::array<double, at_first.size()> chances_ = at_first;
};

}  // namespace semantic::engine

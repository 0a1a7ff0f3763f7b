// SPDX-License-Identifier: Apache-2.0
#pragma once
// Speculative decoding: decides how many tokens of a draft (a guess at the next tokens) a step runs
// together with the known token. Pure. A draft token makes a pass cost a little more, and saves a
// whole pass if it is the token that would have been drawn. The cost of a pass with more rows is
// measured (step_cost), and how often drafts are right is counted (draft_trust); a step runs as
// many draft tokens as make tokens come faster.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/scheduler/policy/step_cost.hpp"

namespace semantic::engine {

/// Draft tokens of one step at most, over all sequences.
constexpr int draft_tokens_most = 15;

enum class draft_rule {
    never,
    where_faster,  // as many draft tokens as make tokens come faster
    always,        // all, whatever they cost: the same steps on every machine, for tests
};

/// Upper bound of the rows of one step whose logits are wanted: one for each sequence, one for a
/// prompt's last token, and the draft tokens.
constexpr int logit_rows_max(int sequences, draft_rule rule) {
    return sequences + 1 + (rule == draft_rule::never ? 0 : draft_tokens_most);
}

/// The draft of one sequence.
struct draft_view {
    int tokens = 0;
    double chance = 0;  // of each token to be right, when those before it are
};

/// `drafts`: one for each sequence that decodes in the step. Returns: for each sequence, how many
/// of its draft's tokens the step runs; together at most draft_tokens_most, the likeliest first.
std::vector<int> plan_drafts(std::span<const draft_view> drafts, const step_cost& cost,
                             draft_rule rule = draft_rule::where_faster);

/// How often the repeat drafts of one sequence are right. `alike`: the length of the match that the
/// draft comes from, in tokens; longer matches are right more often, so chances are kept in bands
/// of it.
class draft_trust {
  public:
    /// The chance that a draft's next token is right if those before it are.
    double chance(std::size_t alike) const noexcept { return chances_[band_of(alike)]; }
    /// Of `run` draft tokens that a step ran the first `taken` were right.
    void learn(std::size_t alike, int run, int taken) noexcept;
    /// Called when a draft existed and was not run: moves the chance of its band a little back to
    /// its initial value, so that such drafts are tried again some time.
    void forget(std::size_t alike) noexcept;

  private:
    // Initial chances, by band: 3 tokens alike, 4 to 7, 8 to 15, 16 to 31, and more.
    static constexpr std::array<double, 5> at_first{0.4, 0.55, 0.75, 0.85, 0.9};
    static std::size_t band_of(std::size_t alike) noexcept;
    std::array<double, at_first.size()> chances_ = at_first;  // by band
};

}  // namespace semantic::engine

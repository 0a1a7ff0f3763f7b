// SPDX-License-Identifier: Apache-2.0
#pragma once
// The chance that a draft's next token is right if those before it are: an initial value that moves
// with each token that was right or wrong. Pure. Owner: a source of drafts.

namespace semantic::engine {

class learned_chance {
  public:
    explicit constexpr learned_chance(double at_first) noexcept
        : at_first_(at_first), now_(at_first) {}
    double value() const noexcept { return now_; }
    /// Of `run` draft tokens that a step ran the first `taken` were right.
    void learn(int run, int taken) noexcept {
        for (int i = 0; i < taken; ++i) now_ += newest_share * (1 - now_);
        if (taken < run) now_ -= newest_share * now_;
    }
    /// Called when a draft existed and was not run: moves the chance a little back to its initial
    /// value, so that drafts are tried again some time.
    void forget() noexcept { now_ += forgotten_share * (at_first_ - now_); }

  private:
    static constexpr double newest_share = 0.125;        // of the way to 1 or 0, a token
    static constexpr double forgotten_share = 1.0 / 64;  // of the way to the initial value
    double at_first_;
    double now_;
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How likely the next token of a source's drafts is right when those before it are: what is
// expected at first, moved by what came. Pure. Owner: a source of drafts.

namespace semantic::engine {

class learned_chance {
  public:
    explicit constexpr learned_chance(double at_first) noexcept
        : at_first_(at_first), now_(at_first) {}
    double value() const noexcept { return now_; }
    /// `taken` of `run` tokens were right; the rest came after a wrong one.
    void learn(int run, int taken) noexcept {
        for (int i = 0; i < taken; ++i) now_ += newest_share * (1 - now_);
        if (taken < run) now_ -= newest_share * now_;
    }
    /// A draft was there and was not run: the chance moves back to what was expected at first, so
    /// that drafts of its kind are tried again some time.
    void forget() noexcept { now_ += forgotten_share * (at_first_ - now_); }

  private:
    static constexpr double newest_share = 0.125;
    static constexpr double forgotten_share = 1.0 / 64;
    double at_first_;
    double now_;
};

}  // namespace semantic::engine

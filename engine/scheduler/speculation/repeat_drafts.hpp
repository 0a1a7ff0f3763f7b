// SPDX-License-Identifier: Apache-2.0
#pragma once
// Guesses that what followed the same tokens earlier in the conversation follows again. Owner:
// drafting. Thread: one at a time.

#include <cstddef>
#include <span>

#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/speculation/draft_source.hpp"
#include "engine/scheduler/speculation/repeat_index.hpp"

namespace semantic::engine {

class repeat_drafts : public draft_source {
  public:
    /// `tokens_expected`: of the sequence in all.
    explicit repeat_drafts(std::size_t tokens_expected) : repeats_(tokens_expected) {}

    void catch_up(std::span<const storage::token_id> tokens) override { repeats_.add(tokens); }
    draft_guess guess(std::span<const storage::token_id> tokens, int most) override;
    void learn(int run, int taken) override;
    std::size_t memory_bytes() const override { return repeats_.memory_bytes(); }

  private:
    repeat_index repeats_;
    draft_trust trust_;
    std::size_t alike_ = 0;  // length of the match that the latest guess is from; 0: no guess
};

}  // namespace semantic::engine

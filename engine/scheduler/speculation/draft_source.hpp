// SPDX-License-Identifier: Apache-2.0
#pragma once
// A source of guesses at the next tokens of one sequence, for speculative decoding. A guess cannot
// change an answer: its tokens run in the same step as the known token, and each one is accepted
// only if it is the token that is drawn anyway. Owner: drafting. Thread: one at a time.

#include <cstddef>
#include <span>
#include <vector>

#include "storage/types/ids.hpp"

namespace semantic::engine {

struct draft_guess {
    std::vector<storage::token_id> tokens{};
    double chance = 0;  // of each token to be right, when those before it are
};

class draft_source {
  public:
    virtual ~draft_source() = default;

    /// Indexes the new tokens at the end of `tokens`, which are the whole sequence so far. The work
    /// of one call is bounded; later calls do the rest. Requires: `tokens` begins with those of the
    /// call before.
    virtual void catch_up(std::span<const storage::token_id> tokens) = 0;
    /// Returns: at most `most` tokens that may follow `tokens`; none if the source has no guess or
    /// has not indexed all tokens yet. Requires: catch_up() was called with the same `tokens`.
    virtual draft_guess guess(std::span<const storage::token_id> tokens, int most) = 0;
    /// Says how good the latest guess was: a step ran its first `run` tokens, and the first `taken`
    /// of these were right. `run` is 0 if the guess was not run.
    virtual void learn(int run, int taken) = 0;
    virtual std::size_t memory_bytes() const = 0;
};

}  // namespace semantic::engine

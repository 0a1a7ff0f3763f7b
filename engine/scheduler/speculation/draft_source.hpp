// SPDX-License-Identifier: Apache-2.0
#pragma once
// What makes guesses at the next tokens of one sequence. A guess changes no answer: it is run
// with the known token, and taken as far as it is what is drawn. Owner: drafting. Thread: one at
// a time.

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

    /// Takes in what is new in `tokens`, all that the sequence knows. The work of one call is
    /// bounded: what is left is taken in by later calls. Requires: `tokens` begins with those of
    /// the call before.
    virtual void catch_up(std::span<const storage::token_id> tokens) = 0;
    /// Returns: at most `most` tokens that may follow `tokens`; none where it has no guess, or has
    /// not caught up that far. Requires: as catch_up(), which was called with the same.
    virtual draft_guess guess(std::span<const storage::token_id> tokens, int most) = 0;
    /// Of the latest guess `run` tokens were run, and the first `taken` of them were right. 0 of 0
    /// where there was one and it was not run: it is tried again some time.
    virtual void learn(int run, int taken) = 0;
    virtual std::size_t memory_bytes() const = 0;
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one sequence's next tokens may be, and how far that was right. Of the guesses that its
// sources make the one is the draft that promises most. A draft changes no answer: its tokens are
// run in the step of the token before them, and each is taken only where it is what is drawn.
// Owner: a sequence. Thread: one at a time.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/speculation/draft_source.hpp"
#include "engine/scheduler/speculation/form_drafts.hpp"
#include "engine/scheduler/speculation/repeat_index.hpp"
#include "engine/types/draft_usage.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// Rows of one step of sequences with drafts: each runs a known token too.
constexpr int draft_rows_max(draft_rule rule) {
    return rule == draft_rule::never ? 0 : 2 * draft_tokens_most;
}

class drafting {
  public:
    /// `tokens_expected`: of the sequence in all. `form`: null where the answer has none; it also
    /// says which tokens of other guesses cannot come.
    drafting(std::size_t tokens_expected, std::unique_ptr<form_drafts> form);

    /// Takes in what is new in `tokens`, as far as the bounds of a step allow. Requires: `tokens`
    /// begins with those of the call before.
    void catch_up(std::span<const storage::token_id> tokens);
    /// Makes a draft of `most` tokens at most of what may follow `tokens`. Requires: as catch_up();
    /// no draft is being run.
    draft_view look(std::span<const storage::token_id> tokens, int most);
    /// The step runs the first `count` tokens of the draft after `latest`. Requires: look() gave as
    /// many.
    void begin(storage::token_id latest, int count);
    /// `latest` and the draft's tokens that the step runs; empty without a draft.
    std::span<const storage::token_id> running() const noexcept { return running_; }
    /// Whether `drawn` is the draft's next token, which is taken then.
    bool take(storage::token_id drawn);
    struct outcome {
        draft_origin origin = draft_origin::repeats;
        draft_count count;
    };
    /// The step is over, with or without a draft. Returns: what it ran, and what was taken.
    outcome end();
    /// What its drafts have come to so far, with the one that is being run.
    draft_usage usage() const;
    std::size_t memory_bytes() const noexcept;
    /// Upper bound of memory_bytes() for a sequence of so many tokens.
    static constexpr std::size_t bytes_max(std::size_t tokens) noexcept {
        return repeat_index::bytes_max(tokens) + form_drafts::bytes_max;
    }

  private:
    std::array<std::unique_ptr<draft_source>, draft_origin_count> sources_;  // null: none
    form_drafts* form_;                            // the source of that name; null: none
    draft_origin origin_ = draft_origin::repeats;  // of the draft
    std::vector<storage::token_id> draft_;
    std::vector<storage::token_id> running_;
    int taken_ = 0;
    draft_usage usage_;  // of drafts that are over
};

}  // namespace semantic::engine

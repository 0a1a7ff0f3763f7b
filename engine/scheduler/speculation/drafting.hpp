// SPDX-License-Identifier: Apache-2.0
#pragma once
// The drafts of one sequence (speculative decoding), and how many of their tokens were right. Each
// source makes a guess at the next tokens, and the guess with the most tokens expected to be right
// becomes the draft. A draft cannot change an answer: its tokens run in the step of the token
// before them, and each is accepted only if it is the token that is drawn. Owner: a sequence.
// Thread: one at a time.

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

/// Upper bound of the rows of one step that sequences with drafts have: each has a known token and
/// at least one draft token.
constexpr int draft_rows_max(draft_rule rule) {
    return rule == draft_rule::never ? 0 : 2 * draft_tokens_most;
}

class drafting {
  public:
    /// `tokens_expected`: upper bound of the sequence's tokens. `form`: the source that knows the
    /// answer's form; it also cuts guesses of the other source where the form forbids a token. Null
    /// if no form constrains the answer.
    drafting(std::size_t tokens_expected, std::unique_ptr<form_drafts> form);

    /// Lets every source index the new tokens, within the bounds of one step. Requires: `tokens`
    /// begins with those of the call before.
    void catch_up(std::span<const storage::token_id> tokens);
    /// Makes a draft of at most `most` tokens that may follow `tokens`. Returns: its length and the
    /// chance of each of its tokens. Requires: as catch_up(); no draft is being run.
    draft_view look(std::span<const storage::token_id> tokens, int most);
    /// Notes that the step runs the first `count` tokens of the draft, after the known token
    /// `latest`. Requires: the draft has as many.
    void begin(storage::token_id latest, int count);
    /// `latest` and the draft's tokens that the step runs; empty without a draft.
    std::span<const storage::token_id> running() const noexcept { return running_; }
    /// Compares a token that was drawn with the draft's next one. Returns: whether they are the
    /// same; then the draft's token counts as taken.
    bool take(storage::token_id drawn);
    struct outcome {
        draft_origin origin = draft_origin::repeats;
        draft_count count;
    };
    /// Ends the step, with or without a draft, and lets the sources learn from it. Returns: how
    /// many draft tokens ran and how many were taken.
    outcome end();
    /// Sums over all drafts so far, including the one that is being run.
    draft_usage usage() const;
    std::size_t memory_bytes() const noexcept;
    /// Upper bound of memory_bytes() for a sequence of so many tokens.
    static constexpr std::size_t bytes_max(std::size_t tokens) noexcept {
        return repeat_index::bytes_max(tokens) + form_drafts::bytes_max;
    }

  private:
    std::array<std::unique_ptr<draft_source>, draft_origin_count> sources_;  // by draft_origin
    form_drafts* form_;                            // sources_[draft_origin::form]; may be null
    draft_origin origin_ = draft_origin::repeats;  // of the draft
    std::vector<storage::token_id> draft_;         // of the latest look()
    std::vector<storage::token_id> running_;
    int taken_ = 0;      // draft tokens of running_ that were drawn
    draft_usage usage_;  // without the draft that is being run
};

}  // namespace semantic::engine

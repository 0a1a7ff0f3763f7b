#pragma once
// What one sequence's next tokens may be, and how far that was right. A draft changes no answer:
// its tokens are run in the step of the token before them, and each is taken only where it is what
// is drawn. Owner: a sequence. Thread: one at a time.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/speculation/repeat_index.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

class drafting {
  public:
    /// `tokens_expected`: of the sequence in all.
    explicit drafting(std::size_t tokens_expected) : repeats_(tokens_expected) {}

    /// Makes a draft of `most` tokens at most of what may follow `tokens`. Requires: `tokens`
    /// begins with those of the call before; no draft is being run.
    draft_view look(std::span<const storage::token_id> tokens, int most);
    /// The step runs the first `count` tokens of the draft after `latest`. Requires: look() gave as
    /// many.
    void begin(storage::token_id latest, int count);
    /// `latest` and the draft's tokens that the step runs; empty without a draft.
    std::span<const storage::token_id> running() const noexcept { return running_; }
    /// Whether `drawn` is the draft's next token, which is taken then.
    bool take(storage::token_id drawn);
    struct outcome {
        int run = 0;
        int taken = 0;
    };
    /// The step is over, with or without a draft. Returns: how many tokens it ran, and were taken.
    outcome end();

  private:
    repeat_index repeats_;
    draft_trust trust_;
    std::size_t alike_ = 0;  // before the draft; 0: there is none
    std::vector<storage::token_id> draft_;
    std::vector<storage::token_id> running_;
    int taken_ = 0;
};

}  // namespace semantic::engine

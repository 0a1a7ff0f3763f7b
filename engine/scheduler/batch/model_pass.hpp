// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs one pass over the weights for the rows of a step, measures it, and draws the next tokens.
// Knows nothing of clients and memories. Owner: batch. Thread: confined to the step node; run()
// uses the compute arena's threads.

#include <functional>
#include <span>
#include <vector>

#include "engine/model/transformer.hpp"
#include "engine/scheduler/batch/step_rows.hpp"
#include "engine/scheduler/policy/form_share.hpp"
#include "engine/scheduler/policy/step_cost.hpp"
#include "engine/types/probe.hpp"

namespace semantic::engine {

/// A sequence whose last known token has run, with the logits that its next token is drawn from.
struct sampled_row {
    sequence* run;
    std::span<const float>
        logits;  // [vocabulary]; valid until the next pass, or the sequence's copy
    std::span<const float> draft_logits{};  // [drafts, vocabulary], after each draft token that ran
};

class model_pass {
  public:
    /// `rows_max`: upper bound of the rows of one step whose logits are wanted.
    model_pass(transformer& model, int rows_max, int vocabulary, engine_probe& probe);

    /// Runs the rows' tokens, and draws the next token of each row that ends its sequence. Also
    /// draws for the sequences of `waiting`, whose forms had not decided what may come next.
    /// `arriving`: waits for the layers of the only row's prefix, see sequence_step; null if every
    /// prefix is in the pool. Returns: the rows whose token is drawn, in the order given; the
    /// others wait for their forms. Throws: what the model throws; then no sequence has changed.
    std::vector<sampled_row> run(std::span<const step_row> rows,
                                 std::span<const sampled_row> waiting, layer_gate* arriving);
    /// Only draws for `waiting` sequences, in a step that has no rows.
    static std::vector<sampled_row> run_forms(std::span<const sampled_row> waiting);
    /// Draws the token after a draft token that was taken, from the `logits` after that. Returns:
    /// whether it is drawn; otherwise the sequence waits for its form.
    bool draw_after_draft(sequence& run, std::span<const float> logits) const;
    /// The costs of the passes so far.
    const step_cost& cost() const { return cost_; }

  private:
    void measure(step_sample pass, bool waited_for_disk);
    /// Draws the next token of each row, on all threads. Returns: the rows whose token is drawn.
    static std::vector<sampled_row> draw(std::vector<sampled_row> rows, const form_load& load);

    transformer& model_;
    const std::size_t vocabulary_;
    engine_probe& probe_;
    step_cost cost_;
    double pass_seconds_ = 0;    // of the latest pass
    std::vector<float> logits_;  // [rows_max, vocabulary]
};

}  // namespace semantic::engine

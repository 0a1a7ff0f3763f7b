// SPDX-License-Identifier: Apache-2.0
#pragma once
// One pass over the weights for the rows of a step: the model runs, the pass is measured, and the
// next tokens are drawn. Knows nothing of clients and memories. Owner: batch. Thread: confined to
// the step node; run() uses the compute arena's threads.

#include <functional>
#include <span>
#include <vector>

#include "engine/model/transformer.hpp"
#include "engine/scheduler/batch/step_rows.hpp"
#include "engine/scheduler/policy/form_share.hpp"
#include "engine/scheduler/policy/step_cost.hpp"
#include "engine/types/probe.hpp"

namespace semantic::engine {

/// A sequence whose last known token has run.
struct sampled_row {
    sequence* run;
    std::span<const float> logits;  // [vocabulary]; valid until the next pass, or the sequence's
    std::span<const float> draft_logits{};  // [drafts, vocabulary], of the draft's tokens; likewise
};

class model_pass {
  public:
    /// `rows_max`: of one step, whose logits are wanted.
    model_pass(transformer& model, int rows_max, int vocabulary, engine_probe& probe);

    /// Runs the rows' tokens, and draws the next ones; those of `waiting` sequences too, whose
    /// forms have still to say what may come next. `arriving`: waits for a layer of the only row's
    /// prefix, see sequence_step; null where every prefix is there.
    /// Returns: those whose token is drawn, in the order given. The others wait for their forms.
    /// Throws: what the model throws; no sequence has changed then.
    std::vector<sampled_row> run(std::span<const step_row> rows,
                                 std::span<const sampled_row> waiting, layer_gate* arriving);
    /// The same where nothing can run but forms.
    static std::vector<sampled_row> run_forms(std::span<const sampled_row> waiting);
    /// Draws the token that follows a draft's, from its logits, by itself. Returns: whether it
    /// is drawn; else the sequence waits for its form.
    bool draw_after_draft(sequence& run, std::span<const float> logits) const;
    /// What passes have cost so far.
    const step_cost& cost() const { return cost_; }

  private:
    void measure(step_sample pass, bool waited_for_disk);
    static std::vector<sampled_row> draw(std::vector<sampled_row> rows, const form_load& load);

    transformer& model_;
    const std::size_t vocabulary_;
    engine_probe& probe_;
    step_cost cost_;
    double pass_seconds_ = 0;    // of the latest pass
    std::vector<float> logits_;  // [rows_max, vocabulary]
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The running and waiting requests, and what one step does with them: admitter gives places,
// starter begins requests, step_rows says what runs, model_pass runs it, delivery hands over what
// came of it. Owner: the scheduler. Thread: confined to the step node; run_step() uses the compute
// arena's threads inside forward(). A request never takes another's blocks: what does not fit
// waits, and memory that no sequence runs on is evicted first. When the running sequences have
// grown until nothing is left, the youngest gives its blocks back and computes them again later.

#include <chrono>

#include "engine/scheduler/batch/admitter.hpp"
#include "engine/scheduler/batch/batch_outputs.hpp"
#include "engine/scheduler/batch/delivery.hpp"
#include "engine/scheduler/batch/head_sharing.hpp"
#include "engine/scheduler/batch/model_pass.hpp"
#include "engine/scheduler/batch/open_choices.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/scheduler/batch/starter.hpp"
#include "engine/scheduler/batch/step_rows.hpp"
#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/queue/wait_queue.hpp"
#include "engine/types/probe.hpp"

namespace semantic::engine {

struct batch_options {
    chunk_policy chunks;
    int max_batch = 16;
    int vocabulary = 0;
    draft_rule drafts = draft_rule::never;  // which of what may come next a step runs too
    answer_rules answers;
    int early_save_tokens =
        256;  // a prompt with so many new tokens is saved while its answer is generated
};

class batch {
  public:
    batch(transformer& model, const tokenizer& words, storage::block_pool& pool,
          storage::agent_cache_store& store, batch_options options, engine_probe& probe,
          batch_outputs& outputs);

    /// A resolved request. Refused at once when its prompt can never fit, with both numbers, and
    /// when it biases tokens that the model does not have.
    void add(job_ptr work);
    /// The blocks of the request's prefix are being read. Where nothing else runs the request
    /// begins, and computes each layer when that has come.
    void arriving(const job_ptr& work, storage::restored_prefix begun);
    /// The request's prefix is in the pool, as far as it could be read.
    void restored(const job_ptr& work, storage::restored_prefix found);
    /// Runs one step. Returns: whether another step can make progress right away.
    bool run_step();

  private:
    bool step();
    bool wait_for_others();
    void end_turn_where_there_is_room();
    void end_stopped();
    void begin_choices();
    void tell_waiting();
    std::optional<step_run> composition_of(std::span<const step_row> rows) const;
    void publish_step(step_run composed, std::chrono::steady_clock::duration took);
    void run_rows(std::span<const step_row> rows);
    void run_model(std::span<const step_row> rows);
    std::vector<sampled_row> waiting_for_forms() const;
    void take_tokens(std::span<const sampled_row> drawn);
    void take_drafts(const sampled_row& row);
    void end_drafts(std::span<const step_row> rows);
    template <class Action>
    void fail_alone(sequence& run, Action action);
    bool relieve(bool others_were_busy);
    bool others_may_give_way();
    void preempt_youngest();
    void end_for_want_of_blocks(sequence& run);
    bool has_work() const;

    const batch_options options_;
    batch_outputs& outputs_;
    const storage::block_pool& pool_;
    engine_probe& probe_;
    // Since when, and when last, the only answer under way was short of memory.
    std::chrono::steady_clock::time_point short_since_{}, short_at_{};

    wait_queue waiting_;
    sequence_set sequences_;
    open_choices open_choices_;

    delivery delivery_;
    starter starter_;
    head_sharing heads_;
    admitter admitter_;
    step_rows rows_;
    model_pass model_;
};

}  // namespace semantic::engine

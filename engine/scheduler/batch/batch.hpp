// SPDX-License-Identifier: Apache-2.0
#pragma once
// The running and waiting requests of one model, and the steps that compute their tokens. In a step
// admitter gives batch slots, starter begins requests, step_rows chooses what runs, model_pass runs
// it, and delivery hands over tokens and memories. Owner: the scheduler. Thread: confined to the
// step node; run_step() uses the compute arena's threads inside forward().
//
// Memory: a request that does not fit waits, after memory that no sequence runs on was evicted.
// When running sequences have grown until no frame is left, the youngest is preempted: it gives its
// blocks back and computes them again later.

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
    draft_rule drafts = draft_rule::never;  // which draft tokens steps run (speculative decoding)
    answer_rules answers;
    int early_save_tokens =
        256;  // a prompt with so many new tokens is saved while its answer is generated
};

class batch {
  public:
    batch(transformer& model, const tokenizer& words, storage::block_pool& pool,
          storage::agent_cache_store& store, batch_options options, engine_probe& probe,
          batch_outputs& outputs);

    /// Takes a resolved request into the queue. Refuses it at once if its prompt can never fit, or
    /// if it names tokens that the model does not have.
    void add(job_ptr work);
    /// Called when the blocks of the request's prefix begin to be read from disk. If nothing else
    /// runs, the request starts early: it computes each layer as soon as that is read.
    void arriving(const job_ptr& work, storage::restored_prefix begun);
    /// Called when the blocks of the request's prefix are in the pool; `found` says how many could
    /// be read. The request begins.
    void restored(const job_ptr& work, storage::restored_prefix found);
    /// Runs one step. Returns: whether another step can make progress right away.
    bool run_step();

  private:
    /// As run_step(), without the notice to the pool's budget.
    bool step();
    bool wait_for_others();
    void end_turn_where_there_is_room();
    void end_stopped();
    void begin_choices();
    void tell_waiting();
    std::optional<step_run> composition_of(std::span<const step_row> rows) const;
    void publish_step(step_run composed, std::chrono::steady_clock::duration took);
    void run_rows(std::span<const step_row> rows);
    /// One pass over the weights for the rows, and all that follows from it. Throws: what the model
    /// throws; then no sequence has changed.
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
    // When the only running answer became short of memory, and when it was short last.
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

#pragma once
// The running and waiting requests, and what one step does with them: admit, plan, run the model,
// sample, finish. Owner: the scheduler. Thread: confined to the step node; run_step() uses the
// compute arena's threads inside forward(). A request never takes another's blocks: what does not
// fit waits, and memory that nobody runs on is evicted first. When those that run have grown until
// nothing is left, the youngest gives its blocks back and computes them again later. Who runs is
// decided by admission, what runs by plan. From waiting to running: batch_admit.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/model/transformer.hpp"
#include "engine/scheduler/early_start.hpp"
#include "engine/scheduler/open_choices.hpp"
#include "engine/scheduler/policy/admission.hpp"
#include "engine/scheduler/sequence_set.hpp"
#include "engine/scheduler/wait_queue.hpp"
#include "engine/types/probe.hpp"

namespace semantic::engine {

/// A request that is over, and its last event.
struct ended_request {
    job_ptr work;
    generation_event last;    // finished or failed
    bool remembered = false;  // its memory is published, as far as it got, and not saved yet
};

/// Where a step's results go. Called by the step node only; none waits.
struct batch_outputs {
    std::function<void(const job_ptr&, generation_event)> emit;
    std::function<void(ended_request)> commit;
    /// Saves what was just published, behind the work.
    std::function<void(const storage::agent_id&, storage::save_extent)> save;
    /// Whether a save or a look-up holds blocks that no sequence runs on. When that changes,
    /// run_step() is called again.
    std::function<bool()> transient_holds;
    /// Reads the prefix's blocks: may hand the job to arriving() meanwhile, ends with restored().
    std::function<void(const job_ptr&)> restore;
    /// Whether requests are on their way to the batch, and so wait for this step to end. Asked
    /// while a step waits for the disk.
    std::function<bool()> inbound;
};

struct batch_options {
    chunk_policy chunks;
    int max_batch = 16;
    int vocabulary = 0;
    answer_rules answers;
    int early_save_tokens =
        256;  // a prompt with so many new tokens is saved while its answer is generated
};

class batch {
  public:
    batch(transformer& model, const tokenizer& words, storage::block_pool& pool,
          storage::agent_cache_store& store, batch_options options, engine_probe& probe,
          batch_outputs outputs);

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
    bool has_work() const;
    batch_load load() const;
    std::size_t frames_promised() const;
    void end_stopped();
    void admit();
    bool make_room_for(candidate next, std::size_t frames, const storage::agent_id* keep);
    bool resume_oldest();
    bool admit_first();
    void start(const job_ptr& work);
    void begin(const job_ptr& work);
    std::unique_ptr<sequence> make_sequence(const job_ptr& work);
    void announce(const job_ptr& work);
    bool is_early(const sequence& run) const { return early_ && &early_->run() == &run; }
    bool wait_for_early_layer(int layer);
    void confirm_early_start();
    void revoke_early_start();
    bool reserve_frames(sequence& run, int tokens);
    std::vector<std::pair<sequence*, int>> choose();
    void run_each(const std::vector<std::pair<sequence*, int>>& chosen);
    void run_model(const std::vector<std::pair<sequence*, int>>& chosen);
    void draw_ahead(const std::vector<std::pair<sequence*, const float*>>& sampled) const;
    void sample(sequence& run, std::span<const float> logits);
    void prompt_finished(sequence& run, std::span<const float> logits);
    void publish_full_blocks(sequence& run);
    void start_choices();
    void start_choice();
    void end_choice(sequence& run, finished last);
    void end(const job_ptr& work, generation_event last);
    void remember(sequence& run, bool complete);
    void mark_ended(sequence& run);
    bool relieve();
    void preempt_youngest();
    void end_for_want_of_blocks(sequence& run);
    bool release_waiting_blocks(std::size_t from);

    transformer& model_;
    const tokenizer& tokenizer_;
    storage::block_pool& pool_;
    storage::agent_cache_store& store_;
    batch_options options_;
    engine_probe& probe_;
    batch_outputs outputs_;

    wait_queue waiting_;
    std::vector<job_ptr> restoring_;  // admitted, blocks on their way
    sequence_set sequences_;
    std::optional<early_start> early_;  // of the only sequence that runs
    open_choices open_choices_;
    request_id last_prefilled_ = 0;
    bool transient_holds_ = false;  // when this step began
    step_cost cost_;
    std::uint64_t seeds_;        // state of the generator of seeds for requests without one
    std::vector<float> logits_;  // [max_batch + 1, vocabulary]
};

}  // namespace semantic::engine

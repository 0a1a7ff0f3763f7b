// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns a request that has got a batch slot into a running sequence: takes the blocks of its prefix
// and notifies the client. If the prefix is on disk it is read first, on a storage strand; if
// nothing else runs, the request starts early and computes each layer as soon as that is read.
// Owner: batch. Thread: confined to the step node; wait_for_layer() blocks a thread of the compute
// arena.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/pass/sequence_step.hpp"
#include "engine/scheduler/batch/batch_outputs.hpp"
#include "engine/scheduler/batch/delivery.hpp"
#include "engine/scheduler/batch/open_choices.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/types/probe.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

class starter : public layer_gate {
  public:
    starter(const tokenizer& words, storage::block_pool& pool, storage::agent_cache_store& store,
            const answer_rules& answers, sequence_set& sequences, delivery& deliver,
            batch_outputs& outputs, engine_probe& probe);

    /// Begins a request that has got a slot: at once if its prefix is in the pool; otherwise has
    /// the prefix read, and the request runs when restored() is called.
    void begin(const job_ptr& work);
    /// Requests that have a slot and whose prefix is being read.
    const std::vector<job_ptr>& restoring() const { return restoring_; }
    /// Runs the request, whose prefix is in the pool now; `found` says how much could be read.
    void restored(const job_ptr& work, storage::restored_prefix found);

    /// Runs the request while the blocks of its prefix are still being read. Requires:
    /// may_start_early().
    void begin_early(const job_ptr& work, storage::restored_prefix begun);
    /// Blocks until a layer of the early start's prefix has been read. With the last layer the
    /// start becomes final and the client is notified. Returns: whether the layer was read; if not
    /// the step is given up.
    bool wait_for_layer(int layer) override;
    /// Undoes an early start, if there is one: its request waits for restored() again.
    void revoke_early();

    /// Has the first `tokens` tokens of `memory` read from disk for a preempted sequence, which
    /// continues after them once take_back() is called. Requires: frames for all of the sequence.
    void bring_back(sequence& run, std::shared_ptr<const storage::agent_state> memory, int tokens);
    /// Lets the preempted sequence run for which bring_back() had a memory read. Returns: false if
    /// the request has none; then `found` is not used.
    bool take_back(const job_ptr& work, storage::restored_prefix& found);

    /// Starts one more choice of a request whose prompt is done.
    void begin_choice(const open_choices::prompt_end& prompt);

  private:
    /// Runs the request from job::restored. An exception ends the request.
    void start(const job_ptr& work);
    /// The sequence of choice 0, after the tokens of job::restored, which is corrected if the
    /// sequence has to begin earlier.
    std::unique_ptr<sequence> make_sequence(const job_ptr& work);
    /// Sends the client `admitted`, with the numbers of reused tokens, and counts these.
    void announce(const job_ptr& work);

    const tokenizer& tokenizer_;
    storage::block_pool& pool_;
    storage::agent_cache_store& store_;
    const answer_rules& answers_;
    sequence_set& sequences_;
    delivery& deliver_;
    batch_outputs& outputs_;
    engine_probe& probe_;
    std::vector<job_ptr> restoring_;
    std::uint64_t seeds_;  // state of the generator of seeds for requests without one
};

}  // namespace semantic::engine

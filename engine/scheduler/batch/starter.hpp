// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes a running sequence of a request that has a slot in the batch: finds the part of the prefix
// that is there, takes its blocks, and notifies the client. A prefix on disk is read meanwhile;
// where nothing else runs, its request begins at once and computes each layer when that has been
// read. Owner: batch. Thread: confined to the step node; wait_for_layer() blocks a thread of the
// compute arena.

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

    /// The request has a place. It runs at once where its prefix is in the pool, and when
    /// restored() is called where not.
    void begin(const job_ptr& work);
    /// Requests with a place whose prefix is being read.
    const std::vector<job_ptr>& restoring() const { return restoring_; }
    /// The request's prefix is in the pool, as far as it could be read.
    void restored(const job_ptr& work, storage::restored_prefix found);

    /// The request runs while the blocks of its prefix are read. Requires: may_start_early().
    void begin_early(const job_ptr& work, storage::restored_prefix begun);
    /// Blocks until a layer of the early start's prefix has come; with the last one the request is
    /// like any other. Returns: whether the layer is there.
    bool wait_for_layer(int layer) override;
    /// The request that runs without its whole prefix, if any, waits for restored() again.
    void revoke_early();

    /// A preempted sequence goes on after the first `tokens` tokens of `memory`, once take_back()
    /// is called. Requires: room for all of it.
    void bring_back(sequence& run, std::shared_ptr<const storage::agent_state> memory, int tokens);
    /// The request's memory is in the pool, as far as it could be read. Returns: whether it was a
    /// preempted sequence's, which then runs.
    bool take_back(const job_ptr& work, storage::restored_prefix& found);

    /// One more choice of a request whose prompt is done.
    void begin_choice(const open_choices::prompt_end& prompt);

  private:
    void start(const job_ptr& work);
    std::unique_ptr<sequence> make_sequence(const job_ptr& work);
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

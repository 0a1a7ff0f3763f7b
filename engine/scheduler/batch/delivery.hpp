// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hands over what a step gave: tokens and ends to clients, memories to the store. Owner: batch.
// Thread: confined to the step node.

#include <span>

#include "engine/scheduler/batch/batch_outputs.hpp"
#include "engine/scheduler/batch/open_choices.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/types/probe.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

class delivery {
  public:
    /// A prompt with `early_save_tokens` new tokens is saved while its answer is generated.
    delivery(const storage::block_pool& pool, storage::agent_cache_store& store,
             int early_save_tokens, sequence_set& sequences, open_choices& choices,
             batch_outputs& outputs, engine_probe& probe)
        : pool_(pool),
          store_(store),
          early_save_tokens_(early_save_tokens),
          sequences_(sequences),
          choices_(choices),
          outputs_(outputs),
          probe_(probe) {}

    /// The sequence takes the token that it has drawn from the logits of its last one.
    void take_token(sequence& run, std::span<const float> logits);
    /// Publishes the blocks that the sequence's window has left, if there are any.
    void publish_full_blocks(sequence& run);
    /// Publishes all that the sequence has read, for others that go on from it now. Does nothing
    /// for further choices, and while it may still be revoked.
    void publish_read(sequence& run);
    /// The sequence is about to give way. Where the model has recurrent states its memory is
    /// published, so that it can return to where it was: without a state it would begin again.
    void publish_preempted(sequence& run);
    /// How often a memory was published.
    std::uint64_t publications() const { return publications_; }
    /// One choice is complete, and with the last one its request.
    void end_choice(sequence& run, finished last);
    /// The whole request is over, whatever its choices had come to.
    void end_request(const job_ptr& work, generation_event last);

  private:
    void first_token(const job& work);
    void prompt_finished(sequence& run, std::span<const float> logits);
    void publish(sequence& run, storage::agent_state memory);
    void remember(sequence& run, bool complete);
    void mark_ended(sequence& run);

    const storage::block_pool& pool_;
    storage::agent_cache_store& store_;
    const int early_save_tokens_;
    sequence_set& sequences_;
    open_choices& choices_;
    batch_outputs& outputs_;
    engine_probe& probe_;
    std::uint64_t publications_ = 1;  // 0: none was ever looked at
};

}  // namespace semantic::engine

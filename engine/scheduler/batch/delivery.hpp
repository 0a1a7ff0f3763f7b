// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hands over the results of a step: tokens and ends to clients, memories to the store. To "publish"
// a memory is to put it into the store in RAM, where other requests find it. Owner: batch. Thread:
// confined to the step node.

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

    /// Appends the token that the sequence has drawn from `logits` (those of its last known token),
    /// sends it to the client, and ends the choice if it was the last token.
    void take_token(sequence& run, std::span<const float> logits);
    /// For models with sliding windows: publishes and saves the memory if the window has left a
    /// block, so that the frames before the window can leave RAM and a later prompt may still
    /// diverge there.
    void publish_full_blocks(sequence& run);
    /// Publishes all that the sequence has computed, for requests that continue from it now. Does
    /// nothing for choices other than 0, and for an early start that may still be revoked.
    void publish_read(sequence& run);
    /// Called before a sequence is preempted. For a model with recurrent states publishes its
    /// memory with its current state: without one it would have to compute everything again.
    void publish_preempted(sequence& run);
    /// How often a memory was published: requests that waited compare it to see whether to look
    /// for a better source.
    std::uint64_t publications() const { return publications_; }
    /// Ends one choice, and its request with the last one. The memory of choice 0 is published: it
    /// is the one that the conversation continues.
    void end_choice(sequence& run, finished last);
    /// Ends the whole request, whether or not its choices are complete. Does nothing if it is over.
    void end_request(const job_ptr& work, generation_event last);

  private:
    /// Measures and publishes the time to the request's first token.
    void report_first_token(const job& work);
    /// Publishes and saves the memory of a prompt that was just read, if it is long or has several
    /// choices. `logits`: those of its last token.
    void finish_prompt(sequence& run, std::span<const float> logits);
    void publish(sequence& run, storage::agent_state memory);
    /// Publishes the memory of choice 0 at its end. `complete`: the answer was not broken off.
    void publish_end(sequence& run, bool complete);
    void mark_ended(sequence& run);

    const storage::block_pool& pool_;
    storage::agent_cache_store& store_;
    const int early_save_tokens_;
    sequence_set& sequences_;
    open_choices& choices_;
    batch_outputs& outputs_;
    engine_probe& probe_;
    std::uint64_t publications_ = 1;  // so that a reader's 0 means that it never looked
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gives the batch's slots ("places") to preempted sequences and waiting requests, as
// policy/admission decides, and evicts memory that no sequence runs on to make room for them.
// Owner: batch. Thread: confined to the step node.

#include <cstddef>

#include "engine/scheduler/batch/head_sharing.hpp"
#include "engine/scheduler/batch/open_choices.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/scheduler/batch/starter.hpp"
#include "engine/scheduler/policy/admission.hpp"
#include "engine/scheduler/queue/wait_queue.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

class admitter {
  public:
    /// `places`: slots of the batch, the most sequences that run at a time.
    admitter(const storage::block_pool& pool, storage::agent_cache_store& store,
             const chunk_policy& chunks, int places, wait_queue& waiting, sequence_set& sequences,
             open_choices& choices, starter& starts, head_sharing& heads);

    /// Starts preempted sequences and waiting requests, as many as get a slot and fit into the
    /// pool. `transient_holds`: see batch_load.
    void admit(bool transient_holds);
    /// The counts from which admission is decided now.
    batch_load load(bool transient_holds) const;
    /// Takes from waiting requests and choices the blocks that they would start from; `spared`
    /// (may be null) keeps its own. First those that are on disk, too, and in a later call those
    /// that have to be computed again. Returns: whether any block was released.
    bool release_waiting_blocks(const job* spared = nullptr);
    /// Drops the memories of preempted sequences that could not be saved: they hold frames that
    /// cannot be evicted. The sequences compute them again. Requires: no save is under way.
    /// Returns: whether there were any.
    bool forget_unsaved_of_preempted();

  private:
    /// What a candidate needs to begin.
    struct frame_demand {
        candidate applicant;
        std::size_t frames;
        const storage::agent_id* kept;  // whose memory is not evicted for it; null: none
        const job* work;                // null: a preempted sequence
    };
    /// Each starts the next candidate of its kind, and returns whether that had room.
    bool resume_oldest(bool transient_holds);
    bool return_oldest(bool transient_holds);
    bool admit_next(bool transient_holds);
    /// Evicts memory until the candidate fits. Returns: whether it may begin; if not, the pool is
    /// queued for memory that other models free.
    bool make_room(const frame_demand& wanted, bool transient_holds);
    bool wait_for_others(const batch_load& now);
    bool fits(std::size_t frames, const storage::agent_id* kept);
    /// Frames that running sequences and restoring prompts will still take.
    std::size_t frames_promised() const;

    const storage::block_pool& pool_;
    const storage::kv_layout& layout_;
    storage::agent_cache_store& store_;
    const chunk_policy& chunks_;
    const std::size_t places_;
    wait_queue& waiting_;
    sequence_set& sequences_;
    open_choices& choices_;
    starter& starts_;
    head_sharing& heads_;
};

}  // namespace semantic::engine

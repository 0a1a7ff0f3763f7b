// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gives the batch's places to preempted sequences and to requests that wait, as admission decides,
// and evicts memory that no sequence runs on for them. Owner: batch. Thread: confined to the step
// node.

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
    /// `places`: of the batch.
    admitter(const storage::block_pool& pool, storage::agent_cache_store& store,
             const chunk_policy& chunks, int places, wait_queue& waiting, sequence_set& sequences,
             open_choices& choices, starter& starts, head_sharing& heads);

    /// Lets begin what has a place and fits. `transient_holds`: see batch_load.
    void admit(bool transient_holds);
    batch_load load(bool transient_holds) const;
    /// Requests hold the blocks that they will start from while they wait, and so do choices.
    /// Requests but `spared`, which may be null, release such blocks, and so do all choices.
    /// Returns: whether any did.
    bool release_waiting_blocks(const job* spared = nullptr);
    /// Memories of preempted sequences that could not be saved hold frames that nobody can take;
    /// they are given up. Requires: none is being saved. Returns: whether there were any.
    bool forget_unsaved_of_preempted();

  private:
    /// The frames that a candidate needs, and the agent whose memory it continues, if any.
    struct room {
        candidate applicant;
        std::size_t frames;
        const storage::agent_id* keep;
        const job* work;  // null: a preempted sequence
    };
    bool resume_oldest(bool transient_holds);
    /// Where the model has recurrent states a preempted sequence goes on from its memory.
    bool return_oldest(bool transient_holds);
    bool admit_next(bool transient_holds);
    /// Returns: whether the candidate begins.
    bool make_room(const room& wanted, bool transient_holds);
    bool wait_for_others(const batch_load& now);
    bool fits(std::size_t frames, const storage::agent_id* keep);
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which request starts, which waits, and which sequence gives way when frames are short.
// Pure functions of counts of batch slots ("places") and pool frames, tested as tables, without
// model, pool or clock. `plan` decides what the running sequences do in a step. Carried out by
// batch.

#include <cstddef>

#include "engine/scheduler/policy/plan.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// How many sequences and requests have a batch slot, and how many want one.
struct batch_load {
    std::size_t places = 0;     // of the batch
    std::size_t running = 0;    // sequences, each with a place
    std::size_t restoring = 0;  // requests whose prefix is being read, each with a place
    std::size_t preempted = 0;  // sequences that gave their blocks back; they get slots first
    std::size_t waiting = 0;    // requests without a place
    /// Saves or look-ups hold blocks that no sequence runs on. When they end the batch decides
    /// again.
    bool transient_holds = false;
    /// Other models that share the pool's budget are at work. When they free memory the batch
    /// decides again.
    bool others_busy = false;
    /// All models are short of frames, and it is this model's turn to go on.
    bool has_turn = false;

    bool has_place() const { return running + restoring < places; }
    bool is_idle() const { return running + restoring == 0; }
};

/// Frames that a prompt needs until its answer begins, if it runs in the smallest chunks: larger
/// chunks run only if there are frames for them. `reused`: tokens of the prompt that are not
/// computed.
std::size_t frames_for_prompt(const storage::kv_layout& layout, const chunk_policy& chunks,
                              int prompt_tokens, int reused);
/// As frames_for_prompt(), for a running or preempted sequence, whose answer so far counts as
/// prompt.
std::size_t frames_for_sequence(const storage::kv_layout& layout, const chunk_policy& chunks,
                                const sequence_view& sequence);
/// The frames of frames_for_sequence() that the sequence does not have yet.
std::size_t frames_still_needed(const storage::kv_layout& layout, const chunk_policy& chunks,
                                const sequence_view& sequence);

/// Frames that a sequence may still take until it ends with `tokens_most` tokens in all.
std::size_t frames_for_rest(const storage::kv_layout& layout, const chunk_policy& chunks,
                            const sequence_view& sequence, int tokens_most);

enum class candidate {
    none,       // no slot is free, or nobody wants one
    preempted,  // the oldest of these
    waiting,    // the first request of the queue
};
/// Who gets the next free slot. Preempted sequences come first.
candidate next_candidate(const batch_load& load);

/// Frames that must be free before a candidate begins. `promised`: frames that running and
/// restoring prompts will still take; `frames`: frames that the candidate needs. A preempted
/// sequence gets one block more, so that it is not preempted again at once.
std::size_t frames_to_free(candidate next, std::size_t promised, std::size_t frames,
                           const storage::kv_layout& layout);

/// What becomes of a candidate.
enum class admission {
    admit,
    wait,
    release_waiting,  // take the blocks that waiting requests keep for their start; decide again
};
/// `fits`: the pool has the frames of frames_to_free(). `released`: waiting requests hold no blocks
/// any more.
admission decide_admission(const batch_load& load, bool fits, bool released);

/// What is done when no running sequence can get the frames for its next step.
enum class relief {
    wait,              // for blocks that come free by themselves
    preempt_youngest,  // it gives its blocks back, so the oldest can always complete; with several
                       // models, the oldest of the model whose turn it is
    release_waiting,   // take the blocks that waiting requests keep; try the step again
    end_answer,        // the only sequence has all of the pool, and no other model holds any; if it
                       // began after a shared, partly filled block, it gives that up first
};
/// `released`: as above. `inbound`: requests on their way to the batch may hold blocks, too.
relief decide_relief(const batch_load& load, bool released, bool inbound);

/// Whether a request with several choices may start one more. `request_runs`: it has a slot
/// already; while other requests wait it gets no second one.
bool may_start_choice(const batch_load& load, bool request_runs);

/// Whether a request may begin while its prefix is still being read from disk. Not while others
/// run: they would wait for the disk in the same step.
bool may_start_early(const batch_load& load);

}  // namespace semantic::engine

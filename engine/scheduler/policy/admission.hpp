// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who may begin, who waits and who gives way, from counts of places and frames. Pure: a function of
// what is given, tested as tables, without model, pool or clock. plan says what those that run do
// in a step; admission says who runs. Carried out by batch.

#include <cstddef>

#include "engine/scheduler/policy/plan.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// Who holds a place in the batch, and who wants one.
struct batch_load {
    std::size_t places = 0;     // of the batch
    std::size_t running = 0;    // sequences, each with a place
    std::size_t restoring = 0;  // requests whose prefix is being read, each with a place
    std::size_t preempted = 0;  // sequences that gave their blocks back; before those that wait
    std::size_t waiting = 0;    // requests without a place
    /// Saves or look-ups hold blocks that no sequence runs on. Another decision follows when they
    /// have ended.
    bool transient_holds = false;
    /// Other models that have the pool's budget too are at work. Another decision follows when they
    /// have left something free.
    bool others_busy = false;
    /// Of them all, this one may go on where all are short of frames.
    bool has_turn = false;

    bool has_place() const { return running + restoring < places; }
    bool is_idle() const { return running + restoring == 0; }
};

/// Frames that a prompt needs until its answer begins, run in the smallest chunks: larger ones run
/// where there is room for them. `reused`: of its tokens, those that are not computed.
std::size_t frames_for_prompt(const storage::kv_layout& layout, const chunk_policy& chunks,
                              int prompt_tokens, int reused);
/// The same for a sequence that runs, or did: its answer so far counts as prompt.
std::size_t frames_for_sequence(const storage::kv_layout& layout, const chunk_policy& chunks,
                                const sequence_view& sequence);
/// Of frames_for_sequence(), those that the sequence does not have yet.
std::size_t frames_still_needed(const storage::kv_layout& layout, const chunk_policy& chunks,
                                const sequence_view& sequence);

/// Frames that a sequence may still take until its last token, the `tokens_most`-th.
std::size_t frames_for_rest(const storage::kv_layout& layout, const chunk_policy& chunks,
                            const sequence_view& sequence, int tokens_most);

enum class candidate {
    none,       // no place, or nobody who wants one
    preempted,  // the oldest of these
    waiting,    // the one that came first
};
/// Whose turn it is to get a place. Preempted sequences come first.
candidate next_candidate(const batch_load& load);

/// Frames that must be free before a candidate begins. `promised`: what running and restoring
/// prompts will still take; `frames`: what the candidate needs. A preempted sequence gets a block
/// more, so that it does not have to give way again at once.
std::size_t frames_to_free(candidate next, std::size_t promised, std::size_t frames,
                           const storage::kv_layout& layout);

/// What becomes of a candidate.
enum class admission {
    admit,
    wait,
    release_waiting,  // requests that wait let go of blocks; decide again
};
/// `fits`: the pool has the frames of frames_to_free(). `released`: requests that wait hold no more
/// blocks.
admission decide_admission(const batch_load& load, bool fits, bool released);

/// What is done when no running sequence can get the frames for its next step.
enum class relief {
    wait,              // for blocks that come free by themselves
    preempt_youngest,  // it gives its blocks back, so the oldest always comes to its end; of
                       // several models, that of the one whose turn it is
    release_waiting,   // requests that wait let go of blocks; try the step again
    end_answer,        // the only sequence has all of the pool there is, and no model has more; one
                       // that began after a shared tail tries without it first
};
/// `inbound`: some that are on their way to the batch may hold blocks, too.
relief decide_relief(const batch_load& load, bool released, bool inbound);

/// Whether a request with several choices may start one more: while others wait it has one place.
bool may_start_choice(const batch_load& load, bool request_runs);

/// Whether a request may begin while its prefix is still being read. Not while others run: the step
/// would make them wait for the disk.
bool may_start_early(const batch_load& load);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/admission.hpp"

#include <algorithm>

#include "storage/pool/block_frames.hpp"

namespace semantic::engine {

std::size_t frames_for_prompt(const storage::kv_layout& layout, const chunk_policy& chunks,
                              int prompt_tokens, int reused) {
    // One token more: the answer's first.
    return layout.frames_for(prompt_tokens + 1,
                             std::min(prompt_tokens - reused, chunks.min_tokens));
}

std::size_t frames_for_sequence(const storage::kv_layout& layout, const chunk_policy& chunks,
                                const sequence_view& sequence) {
    return layout.frames_for(sequence.position + sequence.pending + 1,
                             std::min(sequence.pending, chunks.min_tokens));
}

std::size_t frames_still_needed(const storage::kv_layout& layout, const chunk_policy& chunks,
                                const sequence_view& sequence) {
    std::size_t whole = frames_for_sequence(layout, chunks, sequence);
    std::size_t has = layout.frames_for(sequence.position, 0);
    return whole > has ? whole - has : 0;
}

std::size_t frames_for_rest(const storage::kv_layout& layout, const chunk_policy& chunks,
                            const sequence_view& sequence, int tokens_most) {
    const std::size_t whole =
        layout.frames_for(tokens_most, std::max(1, std::min(sequence.pending, chunks.min_tokens)));
    const std::size_t has = layout.frames_for(sequence.position, 0);
    return whole > has ? whole - has : 0;
}

candidate next_candidate(const batch_load& load) {
    if (!load.has_place()) return candidate::none;
    if (load.preempted > 0) return candidate::preempted;
    return load.waiting > 0 ? candidate::waiting : candidate::none;
}

std::size_t frames_to_free(candidate next, std::size_t promised, std::size_t frames,
                           const storage::kv_layout& layout) {
    return promised + frames +
           (next == candidate::preempted ? storage::frames_of_block(layout) : 0);
}

admission decide_admission(const batch_load& load, bool fits, bool released) {
    if (fits) return admission::admit;
    if (!load.is_idle()) return admission::wait;
    if (!released) return admission::release_waiting;
    // With nothing else running the request starts although the count is too small: blocks that it
    // shares with a memory in the pool were counted twice.
    return load.transient_holds || load.others_busy ? admission::wait : admission::admit;
}

relief decide_relief(const batch_load& load, bool released, bool inbound) {
    if (load.restoring > 0) return relief::wait;  // what is free is known once they are read
    // The others go on at once with the frames of the youngest, which is brought back later.
    if (load.running > 1) return relief::preempt_youngest;
    if (!released) return relief::release_waiting;
    // The end of a save or look-up, and a request that arrives, both cause another step.
    if (load.transient_holds || inbound) return relief::wait;
    if (load.others_busy) return load.has_turn ? relief::wait : relief::preempt_youngest;
    return relief::end_answer;
}

bool may_start_choice(const batch_load& load, bool request_runs) {
    return load.has_place() && load.preempted == 0 && (load.waiting == 0 || !request_runs);
}

bool may_start_early(const batch_load& load) { return load.running == 0 && load.preempted == 0; }

}  // namespace semantic::engine

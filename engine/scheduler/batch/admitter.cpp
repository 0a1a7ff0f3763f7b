// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/admitter.hpp"

#include <algorithm>
#include <optional>

#include "engine/scheduler/states/resumable_place.hpp"

namespace semantic::engine {

namespace {

// Frames that the request needs until its answer begins.
std::size_t frames_for(const job& work, const storage::kv_layout& layout,
                       const chunk_policy& chunks) {
    return frames_for_prompt(layout, chunks, static_cast<int>(work.prompt->tokens.size()),
                             work.prompt->reuse_tokens);
}

}  // namespace

admitter::admitter(const storage::block_pool& pool, storage::agent_cache_store& store,
                   const chunk_policy& chunks, int places, wait_queue& waiting,
                   sequence_set& sequences, open_choices& choices, starter& starts,
                   head_sharing& heads)
    : pool_(pool),
      layout_(pool.layout()),
      store_(store),
      chunks_(chunks),
      places_(static_cast<std::size_t>(places)),
      waiting_(waiting),
      sequences_(sequences),
      choices_(choices),
      starts_(starts),
      heads_(heads) {}

void admitter::admit(bool transient_holds) {
    for (;;) {
        heads_.plan();  // others may share the head of the request that has just begun
        switch (next_candidate(load(transient_holds))) {
            case candidate::none:
                pool_.budget().wait(pool_, 0);  // out of the queue: nothing is wanted
                return;
            case candidate::preempted:
                if (!resume_oldest(transient_holds)) return;
                break;
            case candidate::waiting:
                if (!admit_next(transient_holds)) return;
                break;
        }
    }
}

batch_load admitter::load(bool transient_holds) const {
    // Requests that wait for a shared head are no candidates yet. A sequence whose memory is being
    // read has its slot already. `has_turn` stays false: only batch::relieve() takes a turn.
    return {places_,
            sequences_.running().size(),
            starts_.restoring().size() + sequences_.count_returning(),
            sequences_.preempted().size() - sequences_.count_returning(),
            waiting_.size() - heads_.planned().jobs.size(),
            transient_holds,
            pool_.budget().others_are_busy(pool_)};
}

// Lets the oldest preempted sequence run again. It computes its tokens from the start, or from
// where a memory that was published meanwhile ends.
bool admitter::resume_oldest(bool transient_holds) {
    if (layout_.has_states() && sequences_.oldest_preempted().choice() == 0)
        return return_oldest(transient_holds);
    sequence& oldest = sequences_.oldest_preempted();
    const frame_demand wanted{candidate::preempted,
                              frames_for_sequence(layout_, chunks_, oldest.view()),
                              &oldest.work().prompt->agent, nullptr};
    if (!make_room(wanted, transient_holds)) return false;
    heads_.look_again(oldest);
    sequences_.resume(oldest);
    return true;
}

// Resumes the oldest preempted sequence of a model with recurrent states, where a sequence can only
// continue from a kept state. It continues from the last state of its agent's memory that fits its
// tokens: at once if that is in RAM, otherwise after it is read from disk (which also counts as
// begun). Without such a state it computes all tokens again. Requires: the sequence is its
// request's choice 0, the only one whose memory is kept.
bool admitter::return_oldest(bool transient_holds) {
    sequence& oldest = sequences_.oldest_preempted();
    const auto memory = store_.find(oldest.work().prompt->agent);
    const int resumable = memory ? find_resumable(*memory, oldest.tokens()) : 0;  // tokens
    std::optional<storage::restored_prefix> hot;  // none: not in RAM, or nothing to go on from
    if (resumable > 0) hot = store_.restore_hot(*memory, resumable);
    std::size_t frames = frames_for_sequence(layout_, chunks_, oldest.view());
    // The frames that it shares with its memory are in the pool already.
    if (hot) frames -= std::min(frames, layout_.frames_for(hot->tokens, 0));
    const frame_demand wanted{.applicant = candidate::preempted,
                              .frames = frames,
                              .kept = hot ? &memory->id : nullptr,
                              .work = nullptr};
    if (!make_room(wanted, transient_holds)) return false;
    if (resumable > 0 && !hot) {
        starts_.bring_back(oldest, memory, resumable);
        return true;
    }
    if (hot) oldest.go_on_from(std::move(*hot), memory->states);
    heads_.look_again(oldest);
    sequences_.resume(oldest);
    return true;
}

// Starts the waiting request that is next, skipping those that wait for a shared head.
bool admitter::admit_next(bool transient_holds) {
    const job_ptr work =
        waiting_.find_next([&](const job& each) { return !heads_.planned().waits(each); });
    heads_.look_again(*work);
    const auto& source = work->prompt->source;
    const frame_demand wanted{candidate::waiting, frames_for(*work, layout_, chunks_),
                              source ? &source->id : nullptr, work.get()};
    if (!make_room(wanted, transient_holds)) return false;
    waiting_.take(work);
    starts_.begin(work);
    return true;
}

// The loop decides again after each thing that may have made room: after waiting requests have
// released blocks, until they have none (`released`), and once after the pool was queued for memory
// of other models (`is_queued`).
bool admitter::make_room(const frame_demand& wanted, bool transient_holds) {
    const std::size_t need =
        frames_to_free(wanted.applicant, frames_promised(), wanted.frames, layout_);
    for (bool released = false, is_queued = false;;) {
        batch_load now = load(transient_holds);
        // The first request in the queue begins first, even if nothing of it runs yet.
        now.others_busy = now.others_busy || pool_.budget().frames_before(pool_) > 0;
        switch (decide_admission(now, fits(need, wanted.kept), released)) {
            case admission::admit:
                pool_.budget().set_busy(pool_, true);  // before the step's run, which takes long
                pool_.budget().wait(pool_, 0);         // out of the queue
                return true;
            case admission::wait:
                if (is_queued || !now.others_busy) return wait_for_others(now);
                // Queues the pool again: from here on it is notified when others free bytes.
                pool_.budget().wait(pool_, need);
                is_queued = true;
                break;
            case admission::release_waiting:
                released = !release_waiting_blocks(wanted.work);
        }
    }
}

// If nothing of this model runs while other models work, waiting requests release the blocks that
// they would start from: otherwise no model could ever use these. Returns: false, for make_room().
bool admitter::wait_for_others(const batch_load& now) {
    if (now.is_idle() && now.others_busy) release_waiting_blocks();
    return false;
}

// Whether the pool has `frames` free frames, after eviction, in addition to those that other models
// have waited for longer. Never while another model has the turn (a shortage of all models).
bool admitter::fits(std::size_t frames, const storage::agent_id* kept) {
    const storage::pool_budget& budget = pool_.budget();
    return !budget.is_turn_taken() && store_.make_room(frames + budget.frames_before(pool_), kept);
}

std::size_t admitter::frames_promised() const {
    std::size_t frames = 0;
    for (const auto& run : sequences_.running())
        frames += frames_still_needed(layout_, chunks_, run->view());
    for (const job_ptr& work : starts_.restoring()) frames += frames_for(*work, layout_, chunks_);
    for (const auto& run : sequences_.preempted())
        if (run->returns) frames += frames_for_sequence(layout_, chunks_, run->view());
    return frames;
}

bool admitter::forget_unsaved_of_preempted() {
    bool any = false;
    for (const auto& run : sequences_.preempted()) {
        if (!layout_.has_states() || run->choice() != 0 || run->returns) continue;
        const storage::agent_id& agent = run->work().prompt->agent;
        const auto memory = store_.inspect(agent);
        if (!memory || !memory->dirty || memory->frames_held == 0) continue;
        // An empty memory takes the place of the dirty one, and so frees its frames.
        store_.put(storage::agent_state{agent});
        any = true;
    }
    return any;
}

bool admitter::release_waiting_blocks(const job* spared) {
    if (waiting_.release_saved_blocks(spared)) return true;
    // Both are called: each may have blocks.
    const bool any = waiting_.release_blocks(spared);
    return choices_.release_blocks() || any;
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/delivery.hpp"

#include <chrono>

#include "engine/scheduler/policy/shared_heads.hpp"
#include "engine/scheduler/states/resumable_place.hpp"

namespace semantic::engine {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
}

}  // namespace

void delivery::take_token(sequence& run, std::span<const float> logits) {
    if (sequences_.has_ended(run)) return;  // with another choice of its request
    bool first = run.output_tokens() == 0;
    if (first && run.choice() == 0) finish_prompt(run, logits);
    sequence::accepted out = run.accept(logits);
    // 0 if the request wanted no token, only its prompt read.
    if (run.output_tokens() > 0) {
        probe_.tokens_decoded.fetch_add(1, std::memory_order_relaxed);
        if (!first)
            probe_.inter_token.observe(seconds_since(run.last_token_at));
        else if (run.choice() == 0)
            report_first_token(run.work());
        run.last_token_at = clock::now();
        outputs_.emit_event(run.work_ptr(), token_text{std::move(out.text), run.last_token(),
                                                       run.choice(), std::move(out.scores)});
    }
    if (out.ended)
        end_choice(run, finished{*out.ended, run.stop_sequence(), run.output_tokens(), false});
}

void delivery::report_first_token(const job& work) {
    const clock::duration after = clock::now() - work.submitted;
    probe_.time_to_first_token.observe(std::chrono::duration<double>(after).count());
    probe_.feed->publish([&] {
        return first_token_made{work.id, work.prompt->agent,
                                std::chrono::duration_cast<std::chrono::microseconds>(after)};
    });
}

void delivery::finish_prompt(sequence& run, std::span<const float> logits) {
    const job& work = run.work();
    // A long new prompt is saved while its answer is generated, so that little is left to write at
    // the end. A prompt with several choices is published in any case, because all choices start
    // from its blocks.
    bool is_long = run.view().position - work.prompt->reuse_tokens >= early_save_tokens_;
    if ((!is_long || work.drops_memory()) && work.request.choices == 1) return;
    // Without the partly filled last block: that would be written again at the end, and copied when
    // the answer's first token is added to it.
    if (work.request.choices == 1 && (!pool_.layout().slides() || run.cache().window_has_moved())) {
        publish(run, run.snapshot_of_whole_blocks());
        outputs_.save_agent(work.prompt->agent, storage::save_extent::everything);
        return;
    }
    storage::agent_state memory = run.snapshot(true);
    if (work.request.choices > 1)
        choices_.add({run.work_ptr(),
                      memory.blocks,
                      {logits.begin(), logits.end()},
                      run.seed(),
                      1,  // the next choice; choice 0 runs
                      memory.states.empty() ? nullptr : memory.states.back().state});
    publish(run, std::move(memory));
    if (!work.drops_memory())
        outputs_.save_agent(work.prompt->agent, storage::save_extent::full_blocks);
}

void delivery::publish(sequence& run, storage::agent_state memory) {
    run.published = static_cast<int>(memory.tokens.size());
    ++publications_;
    store_.put_unfinished(std::move(memory));
}

void delivery::publish_read(sequence& run) {
    if (run.choice() != 0 || run.view().position == 0 || sequences_.has_ended(run) ||
        sequences_.is_early(run))
        return;
    publish(run, run.snapshot(true));
}

void delivery::publish_preempted(sequence& run) {
    const int position = run.view().position;
    if (!pool_.layout().has_states() || run.choice() != 0 || position == 0 ||
        sequences_.has_ended(run))
        return;
    const auto memory = store_.find(run.work().prompt->agent);
    const int place = memory ? find_resumable(*memory, run.tokens()) : 0;
    // A memory that ends shortly before is enough: the few tokens after it are computed again.
    if (position - place >= head_tokens_min) publish(run, run.snapshot_to_return());
}

// The frames of choices other than 0 are not saved: no memory has them.
void delivery::publish_full_blocks(sequence& run) {
    if (sequences_.has_ended(run) || !run.cache().window_has_moved()) return;
    if (run.choice() != 0) {
        // Shared only so that its frames in front of the window are released; nothing is published.
        run.cache().share_whole_blocks();
        return;
    }
    // The snapshot has whole blocks only, so `everything` is all of it.
    publish(run, run.snapshot_of_whole_blocks());
    outputs_.save_agent(run.work().prompt->agent, storage::save_extent::everything);
}

void delivery::end_choice(sequence& run, finished last) {
    job& work = *run.work_ptr();
    if (work.request.choices > 1)
        outputs_.emit_event(
            run.work_ptr(),
            choice_finished{run.choice(), last.why, last.stop_sequence, last.output_tokens});
    work.output_tokens += last.output_tokens;
    work.drafts.add(run.drafted());
    if (run.choice() == 0) {
        publish_end(run, true);
        work.first_end = std::move(last);
    }
    mark_ended(run);
    if (--work.choices_left > 0) {
        // Other choices still run: this memory is saved now, and not only at the request's end.
        if (run.choice() == 0 && work.remembered && !work.drops_memory())
            outputs_.save_agent(work.prompt->agent, storage::save_extent::everything);
        return;
    }
    work.first_end.output_tokens = work.output_tokens;
    work.first_end.drafts = work.drafts;
    outputs_.commit_end({run.work_ptr(), work.first_end, work.remembered});
}

void delivery::end_request(const job_ptr& work, generation_event last) {
    bool runs = false;
    for (const auto* some : {&sequences_.running(), &sequences_.preempted()})
        for (auto& run : *some) {
            if (run->work_ptr() != work || sequences_.has_ended(*run)) continue;
            runs = true;
            work->output_tokens += run->output_tokens();
            work->drafts.add(run->drafted());
            if (run->choice() == 0) publish_end(*run, false);
            mark_ended(*run);
        }
    bool waits = choices_.drop(work);
    if (!runs && !waits) return;  // it is over already
    if (auto* end = std::get_if<finished>(&last)) {
        end->output_tokens = work->output_tokens;
        end->drafts = work->drafts;
    }
    outputs_.commit_end({work, std::move(last), work->remembered});
}

// Published within this step and not in the commit node: the next step must find the memory, whose
// frames it may evict or share.
void delivery::publish_end(sequence& run, bool complete) {
    if (run.view().position == 0 || sequences_.is_early(run)) return;
    ++publications_;
    if (complete)
        store_.put(run.snapshot_at_end());
    else
        store_.put_unfinished(run.snapshot());
    run.work_ptr()->remembered = true;
}

void delivery::mark_ended(sequence& run) {
    sequences_.end(run);
    probe_.running.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace semantic::engine

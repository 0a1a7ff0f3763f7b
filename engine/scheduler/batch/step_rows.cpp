// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/step_rows.hpp"

#include <algorithm>

#include "storage/pool/block_frames.hpp"

namespace semantic::engine {

std::vector<step_row> step_rows::choose(const sequence_set& sequences, const head_plan& heads,
                                        const step_cost& cost) {
    std::vector<sequence*> runs;
    std::vector<sequence_view> views;
    for (const auto& run : sequences.running()) {
        if (run->waits_for_form()) continue;  // nothing is known to run
        runs.push_back(run.get());
        views.push_back(run->view());
        views.back().waits = heads.waits(*run);
    }
    step_plan plan = plan_step(views, chunks_, cost, turns_);
    std::vector<step_row> rows;
    for (std::size_t index : plan.decode)
        if (reserve_frames(*runs[index], 1)) rows.push_back({runs[index], 1});
    // A step with a prompt's chunk has no time left for drafts.
    if (drafts_ != draft_rule::never && !plan.prefill) add_drafts(rows, cost);
    if (plan.prefill) {
        sequence& run = *runs[plan.prefill->index];
        turns_.take(views, plan.prefill->index);
        if (drafts_ != draft_rule::never) run.prepare_drafts();
        // Models with sliding windows or recurrent states can share only what is published at a
        // chunk's end, so there a chunk has to end exactly where a waiting request continues.
        int tokens =
            cut_chunk(views[plan.prefill->index].position, plan.prefill->tokens, heads.ends_of(run),
                      pool_.layout().slides() || pool_.layout().has_states());
        bool ready = reserve_frames(run, tokens);
        while (!ready && tokens > chunks_.min_tokens) {
            tokens = std::max(tokens / 2, chunks_.min_tokens);
            ready = reserve_frames(run, tokens);
        }
        if (ready) rows.push_back({&run, tokens});
    }
    return rows;
}

// Adds draft tokens to rows that decode. Uses only frames that are free: nothing is evicted for a
// guess.
void step_rows::add_drafts(std::vector<step_row>& decoding, const step_cost& cost) const {
    std::vector<draft_view> views;
    for (const step_row& row : decoding) views.push_back(row.run->look_for_draft());
    const std::vector<int> counts = plan_drafts(views, cost, drafts_);
    for (std::size_t i = 0; i < decoding.size(); ++i) {
        sequence& run = *decoding[i].run;
        const int total = run.cache().token_count() + 1 + counts[i];
        if (counts[i] == 0 || !run.reserve(total)) continue;
        run.begin_draft(counts[i]);
        decoding[i].drafts = counts[i];
    }
}

// Reserves frames for `tokens` more tokens of one sequence; evicts memory for them, in the order of
// the attempts below, until they fit. Returns: whether the frames are reserved.
bool step_rows::reserve_frames(sequence& run, int tokens) {
    int has = run.cache().token_count(), total = has + tokens;
    if (run.reserve(total)) return true;
    const storage::kv_layout& layout = pool_.layout();
    // A block more than the growth: a shared tail is copied before it is written.
    int blocks = (total + layout.block_tokens() - 1) / layout.block_tokens() -
                 (has + layout.block_tokens() - 1) / layout.block_tokens() + 1;
    // In addition to the blocks: at most two wide tails and one recurrent state
    // (kv_layout::frames_for()).
    auto need = static_cast<std::size_t>(blocks) * storage::frames_of_block(layout) +
                2 * layout.wide_frames() + layout.state_frames();
    store_.make_room(need, &run.work().prompt->agent);
    if (run.reserve(total)) return true;
    // The saved memory of the sequence's own agent comes last: the two share nearly all blocks.
    store_.make_room(need, nullptr);
    if (run.reserve(total)) return true;
    // Recurrent states that were kept for later prompts only save these time.
    return run.states().drop_kept() && run.reserve(total);
}

}  // namespace semantic::engine

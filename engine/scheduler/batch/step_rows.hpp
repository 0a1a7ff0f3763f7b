// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a step runs: of each sequence that plan_step() names as many tokens as the pool has frames
// for. Memory that no sequence runs on is evicted for them. Owner: batch. Thread: confined to the
// step node.

#include <vector>

#include "engine/scheduler/batch/head_sharing.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/policy/plan.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// A sequence and how many of its known tokens a step runs, and of its draft's after them.
struct step_row {
    sequence* run;
    int tokens;
    int drafts = 0;
};

class step_rows {
  public:
    /// `drafts`: which drafts steps run too.
    step_rows(const storage::block_pool& pool, storage::agent_cache_store& store,
              const chunk_policy& chunks, draft_rule drafts)
        : pool_(pool), store_(store), chunks_(chunks), drafts_(drafts) {}

    /// The next step's rows, with their frames reserved. Returns: none where no sequence can get
    /// frames for a token, those that could wait for a prefix to be restored, or all wait for their
    /// forms.
    std::vector<step_row> choose(const sequence_set& sequences, const head_plan& heads,
                                 const step_cost& cost);

  private:
    bool reserve_frames(sequence& run, int tokens);
    void add_drafts(std::vector<step_row>& decoding, const step_cost& cost) const;

    const storage::block_pool& pool_;
    storage::agent_cache_store& store_;
    const chunk_policy& chunks_;
    const draft_rule drafts_;
    prefill_turns turns_;
};

}  // namespace semantic::engine

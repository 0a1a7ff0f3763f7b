// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the rows of a step: of each sequence that plan_step() names, as many tokens as the pool
// has frames for. Evicts memory that no sequence runs on for them. Owner: batch. Thread: confined
// to the step node.

#include <vector>

#include "engine/scheduler/batch/head_sharing.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/policy/plan.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// A sequence, how many of its known tokens a step runs, and how many tokens of its draft after
/// them.
struct step_row {
    sequence* run;
    int tokens;
    int drafts = 0;
};

class step_rows {
  public:
    /// `drafts`: which draft tokens steps run (speculative decoding).
    step_rows(const storage::block_pool& pool, storage::agent_cache_store& store,
              const chunk_policy& chunks, draft_rule drafts)
        : pool_(pool), store_(store), chunks_(chunks), drafts_(drafts) {}

    /// Returns: the rows of the next step, with their frames reserved. None if no sequence can get
    /// frames for a token, or if every sequence waits for its form or for a shared head.
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

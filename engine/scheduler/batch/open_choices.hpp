// SPDX-License-Identifier: Apache-2.0
#pragma once
// The further choices of requests whose prompt is done, until each has a place in the batch. Each
// starts from the prompt's blocks, which all of them share, and from its last logits. Owner: batch.
// Thread: confined to the step node.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/scheduler/queue/job.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/recurrent_state.hpp"

namespace semantic::engine {

class open_choices {
  public:
    /// One request's choices that have not begun, and what each begins with.
    struct prompt_end {
        job_ptr work;
        std::vector<storage::kv_block_parts> blocks;  // of the prompt; empty: released
        std::vector<float> logits;                    // [vocabulary] of the prompt's last token
        std::uint64_t seed = 0;                       // of choice 0
        int next = 1;                                 // the choice to start next
        storage::recurrent_ptr state{};  // after the prompt, where the layout has states

        bool has_prompt() const { return !blocks.empty(); }
    };

    void add(prompt_end prompt) { prompts_.push_back(std::move(prompt)); }
    bool empty() const { return prompts_.empty(); }
    auto begin() const { return prompts_.begin(); }
    auto end() const { return prompts_.end(); }

    /// The request that the next choice is of. Requires: not empty().
    const prompt_end& front() const { return prompts_.front(); }
    /// The next choice has begun; the request leaves with its last one.
    void started();
    /// Returns: whether the request had choices that did not begin.
    bool drop(const job_ptr& work);
    /// Gives back the prompts' blocks, which are then computed again. Returns: whether there were
    /// any.
    bool release_blocks();

  private:
    std::deque<prompt_end> prompts_;
};

}  // namespace semantic::engine

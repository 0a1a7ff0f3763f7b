// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choices (several answers to one prompt, the first one apart) that have not begun yet because
// they wait for a batch slot. Each starts from the prompt's blocks, which all of them share, and
// from the prompt's last logits. Owner: batch. Thread: confined to the step node.

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
    /// One request's choices that have not begun, and the end of the prompt that each begins from.
    struct prompt_end {
        job_ptr work;
        std::vector<storage::kv_block_parts> blocks;  // the prompt's; empty: computed again
        std::vector<float> logits;                    // [vocabulary] of the prompt's last token
        std::uint64_t seed = 0;                       // of choice 0
        int next = 1;                                 // the choice to start next
        storage::recurrent_ptr state{};  // after the prompt; null for models without such

        bool has_prompt() const { return !blocks.empty(); }
    };

    void add(prompt_end prompt) { prompts_.push_back(std::move(prompt)); }
    bool empty() const { return prompts_.empty(); }
    auto begin() const { return prompts_.begin(); }
    auto end() const { return prompts_.end(); }

    /// The request whose choice begins next. Requires: not empty().
    const prompt_end& front() const { return prompts_.front(); }
    /// Notes that front()'s next choice has begun; removes the request with its last choice.
    void started();
    /// Removes a request. Returns: whether it had choices that did not begin.
    bool drop(const job_ptr& work);
    /// Releases the prompts' blocks; choices that begin later compute them again. Returns: whether
    /// any was released.
    bool release_blocks();

  private:
    std::deque<prompt_end> prompts_;
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prefills the beginning ("head") that several prompts share once: policy/shared_heads decides
// which prompt waits for which. The one that reads the head publishes its memory at the point where
// another can continue, and that one finds it (look_again()). Only equal tokens are shared, within
// a tenant, and never those of a private memory, so no answer changes. A reader that ends early has
// published what it has read (delivery), and the next one continues from there. Owner: batch.
// Thread: confined to the step node.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/scheduler/batch/delivery.hpp"
#include "engine/scheduler/batch/sequence_set.hpp"
#include "engine/scheduler/batch/starter.hpp"
#include "engine/scheduler/policy/shared_heads.hpp"
#include "engine/scheduler/queue/wait_queue.hpp"
#include "engine/types/probe.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// Which requests and sequences wait for a shared head in a step. A request that waits gets no
/// batch slot; a sequence that waits runs no chunk.
struct head_plan {
    /// The head that a request waits for.
    struct awaited_head {
        int position = 0;  // tokens that its reader has read
        int end = 0;       // tokens that the two prompts have in common
    };
    std::unordered_map<const job*, awaited_head> jobs{};
    /// Sequences, which have a slot, that wait.
    std::set<const sequence*> runs{};
    /// By reader: the positions at which those that wait for it can continue.
    std::unordered_map<const sequence*, std::vector<int>> ends{};

    bool waits(const job& work) const { return jobs.contains(&work); }
    /// Returns: the head that the request waits for; nothing if it does not wait.
    std::optional<awaited_head> find(const job& work) const;
    bool waits(const sequence& run) const { return runs.contains(&run); }
    std::span<const int> ends_of(const sequence& run) const;
};

class head_sharing {
  public:
    head_sharing(storage::agent_cache_store& store, sequence_set& sequences,
                 const wait_queue& waiting, const starter& starts, delivery& deliver,
                 engine_probe& probe)
        : store_(store),
          sequences_(sequences),
          waiting_(waiting),
          starts_(starts),
          deliver_(deliver),
          probe_(probe) {}

    /// Decides which request waits for which; valid until the next call.
    void plan();
    const head_plan& planned() const { return plan_; }

    /// Called after a step: publishes the sequence's memory if it has now read tokens that others
    /// wait for.
    void publish_read(sequence& run);

    /// Searches again for the memory that has most of a waiting request's prompt, if any was
    /// published since the last search. A better one becomes the request's source.
    void look_again(job& work);
    /// Searches again for a sequence whose prompt is not done; uses only memory in the pool.
    /// Returns: whether the sequence now continues at a later position.
    bool look_again(sequence& run);
    /// Searches again for all running sequences.
    void look_again();

  private:
    /// A reader with a batch slot: a sequence, or a request whose prefix is being restored.
    struct holder {
        const job* work;
        const sequence* run;  // null: its prefix is being restored
    };
    /// A memory and how much of a prompt it has.
    struct remembered {
        std::shared_ptr<const storage::agent_state> state;
        int tokens = 0;  // of the prompt, from the start
    };
    /// Returns: the published memory that has most of the prompt's tokens, all but the last.
    remembered find_longest(const resolved_prompt& prompt) const;
    void publish_for(const job& work, int known);
    bool take_source(job& work, const remembered& found);
    /// Fills plan_: finds for each reader, and for each waiting request, the reader to wait for.
    void make_plan();
    void count_waits();

    storage::agent_cache_store& store_;
    sequence_set& sequences_;
    const wait_queue& waiting_;
    const starter& starts_;
    delivery& deliver_;
    engine_probe& probe_;
    head_plan plan_;
    std::map<request_id, std::chrono::steady_clock::time_point> waits_;  // when each wait began
};

}  // namespace semantic::engine

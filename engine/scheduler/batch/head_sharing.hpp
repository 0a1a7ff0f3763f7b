// SPDX-License-Identifier: Apache-2.0
#pragma once
// Has a beginning that several prompts share read once: who waits for whom is decided by
// policy/shared_heads, the reader's memory is published where those that wait can go on, and what
// was published since a prompt was resolved becomes its source. Only tokens that are the same are
// shared, within a tenant, and never those of a private memory; so no answer differs for it. A
// reader that ends has published what it has read (delivery), and the next one goes on from there.
// Owner: batch. Thread: confined to the step node.

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

/// Who waits for whom in a step.
struct head_plan {
    /// What a request waits for that has no slot.
    struct awaited_head {
        int position = 0;  // of the reader
        int end = 0;
    };
    std::unordered_map<const job*, awaited_head> jobs{};
    std::set<const sequence*> runs{};  // that wait and have a slot
    /// By reader: where those that wait for it can go on, in tokens.
    std::unordered_map<const sequence*, std::vector<int>> ends{};

    bool waits(const job& work) const { return jobs.contains(&work); }
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

    /// Decides who waits for whom, until the next call.
    void plan();
    const head_plan& planned() const { return plan_; }

    /// After a step: publishes the tokens that others wait for and that the sequence has read now.
    void publish_read(sequence& run);

    /// Looks whether more of a request's prompt is remembered than when it was resolved, or looked
    /// for here last; then that is what it goes on from.
    void look_again(job& work);
    /// The same for a sequence whose prompt is not done, from blocks in the pool. Returns: whether
    /// the sequence now continues at a later position.
    bool look_again(sequence& run);
    /// The same for all that run.
    void look_again();

  private:
    /// One that reads: a sequence, or a request whose prefix is being restored.
    struct holder {
        const job* work;
        const sequence* run;  // null: none yet
    };
    struct remembered {
        std::shared_ptr<const storage::agent_state> state;
        int tokens = 0;  // of the prompt, from the start
    };
    remembered find_longest(const resolved_prompt& prompt) const;
    void publish_for(const job& work, int known);
    bool take_source(job& work, const remembered& found);
    void make_plan();
    void count_waits();

    storage::agent_cache_store& store_;
    sequence_set& sequences_;
    const wait_queue& waiting_;
    const starter& starts_;
    delivery& deliver_;
    engine_probe& probe_;
    head_plan plan_;
    std::map<request_id, std::chrono::steady_clock::time_point> waits_;  // that are planned, since
};

}  // namespace semantic::engine

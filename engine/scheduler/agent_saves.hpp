// SPDX-License-Identifier: Apache-2.0
#pragma once
// Saves agents' memories after their answers, on the agents' strands: notifies the save gate,
// uploads where an object store is shared, and tries again when the disk budget was short. Owner:
// the scheduler. Thread: any.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "engine/scheduler/agent_claims.hpp"
#include "engine/scheduler/save_gate.hpp"
#include "engine/types/probe.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::storage {
class shared_agents;
}

namespace semantic::engine {

/// What saves ask of the scheduler.
class save_outputs {
  public:
    /// Runs the work on the agent's strand. Returns: false where too much is waiting.
    virtual bool post(const storage::agent_id& agent, std::function<void()> work) = 0;
    /// Says that a save holds blocks of the pool that no sequence runs on, until
    /// release_blocks() is called.
    virtual void begin_save() = 0;
    virtual void release_blocks() = 0;
    virtual void warn(std::string text) const = 0;

  protected:
    ~save_outputs() = default;
};

class agent_saves {
  public:
    /// What saves need, all of which outlives them.
    struct services {
        storage::agent_cache_store& store;
        engine_probe& probe;
        std::shared_ptr<save_gate> gate;        // shared with uploads that outlive the scheduler
        storage::shared_agents* shared;         // null: nothing is uploaded
        std::chrono::milliseconds shared_wait;  // more than 0: the gate waits for the upload, too
        const agent_claims& claims;             // each lease is kept until its upload has ended
        int max_hot_agents;                     // --max-hot-agents; 0: no limit
        save_outputs& outputs;
    };
    explicit agent_saves(services given) : services_(std::move(given)) {}

    /// Queues a save of the agent on its strand and returns. `waiting`: the request whose last
    /// event the save gate holds until this save has ended; 0: none. If the strand's queue is full
    /// the save fails, and is tried again after the next one.
    void save(const storage::agent_id& agent, request_id waiting,
              storage::save_extent extent = storage::save_extent::everything);
    /// Queues the agent's removal from RAM, disk and object store, and returns. `waiting`: as
    /// above.
    void drop(const storage::agent_id& agent, request_id waiting);

  private:
    using lease = storage::agent_leases::lease;
    /// Writes the agent to disk, on its strand, and reports to the save gate. `held`: the node's
    /// lease on the agent, which lasts as long as this copy of it.
    void save_now(const storage::agent_id& agent, request_id waiting, storage::save_extent extent,
                  const lease& held);
    /// Ends a complete save that has succeeded: starts the upload if there is an object store, and
    /// notifies the save gate, now or after the upload.
    void report_save(const storage::agent_id& agent, request_id waiting, const lease& held,
                     const written_bytes& written);
    void drop_now(const storage::agent_id& agent, request_id waiting);
    /// Closes the store's account of what the agent's turn has written, and counts it in the
    /// metrics. Returns: the bytes, and whether a limit on bytes a day was reached.
    storage::agent_cache_store::written_bytes end_turn(const storage::agent_id& agent);
    void trim_hot_agents();

    const services services_;
    // A save did not fit into a strand's queue, or lost what it had written: dirty agents are saved
    // again after the next save.
    std::atomic<bool> must_save_again_{false};
    // The warning that the limit on written bytes is reached was given since the last write.
    std::atomic<bool> has_warned_of_bound_{false};
};

}  // namespace semantic::engine

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
    /// Before a save, which holds blocks of the pool; release_blocks() follows.
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
        std::chrono::milliseconds shared_wait;  // more than 0: the gate hears of the upload
        const agent_claims& claims;             // kept until the upload is over
        int max_hot_agents;                     // 0: as many as the pool holds
        save_outputs& outputs;
    };
    explicit agent_saves(services given) : services_(std::move(given)) {}

    /// Returns at once. `waiting`: the request whose end the gate holds; 0: none.
    void save(const storage::agent_id& agent, request_id waiting,
              storage::save_extent extent = storage::save_extent::everything);
    /// Returns at once. Forgets the agent, in RAM and on disk. `waiting`: as above.
    void drop(const storage::agent_id& agent, request_id waiting);

  private:
    using lease = storage::agent_leases::lease;
    void save_now(const storage::agent_id& agent, request_id waiting, storage::save_extent extent,
                  const lease& held);
    void report_save(const storage::agent_id& agent, request_id waiting, const lease& held,
                     const written_bytes& written);
    void drop_now(const storage::agent_id& agent, request_id waiting);
    storage::agent_cache_store::written_bytes end_turn(const storage::agent_id& agent);
    void trim_hot_agents();

    const services services_;
    std::atomic<bool> refused_{false};  // a save found no room in the queue; its agent is dirty
    std::atomic<bool> told_of_bound_{false};  // since something was written last
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The oneTBB flow graph that carries requests through the engine. Decisions are made elsewhere
// (resolve, plan, batch); the nodes only call them.
//
//   submit ──► resolve ──► step ◄─┐ again       restore, save: storage strands, outside the graph
//                 ▲         │ │ └─┘
//                 │         │ └───────────► emit ──► sink
//                 └─ commit ◄┘                ▲
//                       └──── save gate ──────┘
//
// With a shared object store, a request that names an agent first fetches the agent's newest memory
// on the agent's strand (agent_refresh), and reaches resolve after that. A request whose answer is
// constrained by a form that is not compiled yet leaves resolve for the threads of form_compiler,
// and comes back with the form.
//
// Every node is serial and queueing, so what a node owns needs no lock and submit() never runs a
// body. Owner: engine. Thread: public methods from any thread; one host thread waits for the graph
// from start to stop.

#include <chrono>
#include <memory>
#include <string>

#include "engine/model/compute_arena.hpp"
#include "engine/prompt/resolve.hpp"
#include "engine/scheduler/batch/batch.hpp"
#include "engine/scheduler/queue/job.hpp"
#include "engine/types/held_elsewhere.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::storage {
class agent_leases;
class shared_agents;
}  // namespace semantic::storage

namespace semantic::engine {

struct scheduler_options {
    batch_options batch;
    int compute_threads = 0;
    int max_queued = 256;
    int max_hot_agents = 0;
    std::size_t request_bytes = storage::work_budget::bytes_default;  // limit of a request's budget
    std::chrono::milliseconds save_wait{1000};
    std::function<void(std::string)> on_warning;
    storage::shared_agents* shared = nullptr;  // not owned, outlives the scheduler; null: none
    std::chrono::milliseconds shared_wait{0};  // as engine's shared_memory::wait
    storage::agent_leases* leases = nullptr;   // not owned, outlives the scheduler; null: none
    held_elsewhere when_held = held_elsewhere::refuse;
};

class scheduler {
  public:
    scheduler(compute_arena& arena, transformer& model, const tokenizer& words,
              const resolver& prompts, storage::block_pool& pool, storage::agent_cache_store& store,
              scheduler_options options, engine_probe& probe);
    /// Cancels what runs, and waits until every request has ended and every save that was asked for
    /// is made. Memory that nobody asked to be saved is lost: see drain().
    ~scheduler();

    /// Takes a request and returns without running it. `sink` gets its events on the emit node's
    /// thread, the last one exactly once; a request that is refused (server stopping, queue full)
    /// gets `failed` there.
    request_id submit(generation_request request, std::shared_ptr<generation_sink> sink);
    /// Asks the request to end with stop_reason::cancelled. Does nothing for one that has ended.
    void cancel(request_id id);
    /// Runs `action` on this thread. It may hold blocks of the pool that no sequence runs on; until
    /// it returns, an answer that is short of blocks waits for them and does not end.
    void with_transient_hold(const std::function<void()>& action);
    /// Saves and restores that wait or run.
    std::size_t disk_jobs() const;
    /// Blocks until there are none of these.
    void wait_for_saves();
    /// Refuses new requests, lets running ones finish until `deadline`, cancels the rest, saves
    /// what is dirty, and uploads what is to be shared until `deadline`. Blocks.
    void drain(std::chrono::steady_clock::time_point deadline);
    /// Takes requests again. Requires: drain() has returned.
    void resume();

  private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Publishes what happens to requests and memories in the scheduler: counters, and the activity feed
// for subscribers. Thread: any.

#include <chrono>

#include "engine/scheduler/queue/job.hpp"
#include "engine/types/probe.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// Publishes that a request has come, with `ahead` requests before it in the queue.
void tell_arrival(const job& work, int ahead, engine_probe& probe);
/// Counts and publishes that a request has ended. `last`: its last event, finished or failed.
void tell_end(const job& work, const generation_event& last, engine_probe& probe);
/// Publishes how a save, or a restore, that started at `began` has ended.
void tell_save(const storage::agent_id& agent, const storage::result<storage::save_report>& report,
               std::chrono::steady_clock::time_point began, engine_probe& probe);
void tell_restore(const storage::agent_id& agent, const storage::restored_prefix& found,
                  std::chrono::steady_clock::time_point began, engine_probe& probe);

}  // namespace semantic::engine

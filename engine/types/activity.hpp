// SPDX-License-Identifier: Apache-2.0
#pragma once
// Events of an engine for the activity feed (live view of the dashboard). Plain values.

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/types/generation.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/memory_fate.hpp"

namespace semantic::engine {

/// A request has come; `ahead` others wait before it.
struct request_arrived {
    request_id id = 0;
    storage::tenant_id tenant{};
    std::optional<storage::agent_id> agent{};  // as the request names it
    int ahead = 0;
};
/// A request has got its batch slot. `usage`: how much of its prompt was reused; `waited`: since it
/// came.
struct request_admitted {
    request_id id = 0;
    storage::agent_id agent;
    prompt_usage usage{};
    std::chrono::microseconds waited{};
};
struct first_token_made {
    request_id id = 0;
    storage::agent_id agent;
    std::chrono::microseconds after{};  // since it was submitted
};
/// The tokens that one step has run for one sequence.
struct step_share {
    request_id id = 0;
    storage::agent_id agent;
    int tokens = 0;
    bool decodes = false;  // false: the tokens are a chunk of its prompt
};
struct step_run {
    std::vector<step_share> shares{};
    std::chrono::microseconds took{};
};
struct request_ended {
    request_id id = 0;
    storage::tenant_id tenant{};
    std::optional<storage::agent_id> agent{};  // absent: it failed before it had one
    std::string why{};                         // a stop_reason's word; or what failed
    bool has_failed = false;
    int output_tokens = 0;
    bool saved = false;
};
struct memory_saved {
    storage::agent_id agent;
    std::string fault{};  // empty: it is on disk
    std::uint64_t bytes = 0;
    std::chrono::microseconds took{};
};
struct memory_restored {
    storage::agent_id agent;
    int tokens = 0;       // that are in the pool now
    int tokens_read = 0;  // part of them that was read from disk
    std::string fault{};  // why not all tokens that were asked for; empty: all
    std::chrono::microseconds took{};
};
/// An agent's memory has left the pool or the disk, see memory_fate.
struct memory_left {
    storage::agent_id agent;
    storage::memory_fate fate = storage::memory_fate::evicted;
};
/// An agent was changed by a call of its own, not by a generation request.
struct agent_changed {
    enum class change { created, forked, erased, imported };
    storage::agent_id agent;
    change kind = change::created;
    std::optional<storage::agent_id> parent{};  // of a fork: the agent that it was made from
};
using activity_kind =
    std::variant<request_arrived, request_admitted, first_token_made, step_run, request_ended,
                 memory_saved, memory_restored, memory_left, agent_changed>;

struct activity {
    std::chrono::system_clock::time_point at{};
    activity_kind event;
};

const char* to_string(storage::memory_fate fate) noexcept;
const char* to_string(agent_changed::change change) noexcept;

}  // namespace semantic::engine

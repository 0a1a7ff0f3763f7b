// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happens in an engine, for people who watch it. Plain values.

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/types/generation.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/memory_fate.hpp"

namespace semantic::engine {

/// A request came; `ahead` others wait before it.
struct request_arrived {
    request_id id = 0;
    storage::tenant_id tenant{};
    std::optional<storage::agent_id> agent{};  // that it names
    int ahead = 0;
};
/// It got its place, and its prompt was found in memory as `usage` says.
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
/// What one sequence had of a step.
struct step_share {
    request_id id = 0;
    storage::agent_id agent;
    int tokens = 0;
    bool decodes = false;  // else the tokens are a chunk of its prompt
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
    int tokens = 0;       // that are there
    int tokens_read = 0;  // part of them: from disk
    std::string fault{};  // why it is not all that was asked for
    std::chrono::microseconds took{};
};
/// An agent's memory is no longer where it was.
struct memory_left {
    storage::agent_id agent;
    storage::memory_fate fate = storage::memory_fate::evicted;
};
/// A client asked for the change, apart from all requests.
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

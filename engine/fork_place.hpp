// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds where a fork begins in the memory of its source agent, and the notes that it gets.

#include <optional>

#include "engine/engine.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

using fork_place = storage::agent_cache_store::fork_place;

/// Returns: the number of tokens that a fork of the agent `from` at the point `at` gets, and its
/// notes; nothing if it gets the whole memory. Errors: not_found if the store has no such agent, or
/// the agent no answer with that name; bad_value if it has fewer tokens.
storage::result<std::optional<fork_place>> find_fork_place(const storage::agent_cache_store& store,
                                                           const storage::agent_id& from,
                                                           const fork_point& at);

/// As find_fork_place(), for a point within a given memory. Pure.
storage::result<fork_place> fork_place_in(const storage::agent_state& memory, const fork_point& at);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a fork parts from its source, and what it is to know of the text up to there.

#include <optional>

#include "engine/engine.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

using fork_place = storage::agent_cache_store::fork_place;

/// Returns: nothing where the fork begins with all of `from`. Errors: not_found, when the store has
/// no such agent, or the agent no answer with that name; bad_value, when it has fewer tokens.
storage::result<std::optional<fork_place>> find_fork_place(const storage::agent_cache_store& store,
                                                           const storage::agent_id& from,
                                                           const fork_point& at);

/// The same of a memory. Pure.
storage::result<fork_place> fork_place_in(const storage::agent_state& memory, const fork_point& at);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far a sequence that gave way can go on from a memory with recurrent states. Pure: a function
// of tokens and places, tested as a table, without model, pool or clock.

#include <span>

#include "storage/pool/agent_state.hpp"

namespace semantic::engine {

/// Returns: the tokens before the last state that `memory` keeps within what it has in common with
/// `tokens`, but the last of these, which is run in any case; 0: none.
int find_resumable(const storage::agent_state& memory, std::span<const storage::token_id> tokens);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much of a preempted sequence a memory with recurrent states can give back. Pure: tested as a
// table, without model, pool or clock.

#include <span>

#include "storage/pool/agent_state.hpp"

namespace semantic::engine {

/// Returns: from how many of the sequence's `tokens` on it can continue: the position of the last
/// state of `memory` up to which the two have the same tokens. Always less than the number of
/// `tokens`, because the last one has to run. 0: no such state.
int find_resumable(const storage::agent_state& memory, std::span<const storage::token_id> tokens);

}  // namespace semantic::engine

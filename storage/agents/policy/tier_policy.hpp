// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which agent to give up first. Pure.

#include <chrono>

namespace semantic::storage {

/// How readily an agent leaves the pool or the disk: the largest goes first. Its age, divided by
/// what it would cost to compute one of its bytes again.
double dispensability(std::chrono::system_clock::duration unused_for, std::size_t token_count);

}  // namespace semantic::storage

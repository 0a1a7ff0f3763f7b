// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which agent to give up first. Pure.

#include <chrono>

namespace semantic::storage {

/// Returns: how easily a memory can be done without; the largest one goes first. It is the time
/// since its last use, in seconds, divided by the relative cost of computing one of its bytes
/// again, which grows with `token_count`.
double dispensability(std::chrono::system_clock::duration unused_for, std::size_t token_count);

}  // namespace semantic::storage

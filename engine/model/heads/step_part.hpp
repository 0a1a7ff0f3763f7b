// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sequence's part in a step, and its rows that go on. Plain data.

#include <cstddef>

#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// What one sequence contributes to a step.
struct step_part {
    storage::kv_sequence* cache = nullptr;
    int first_row = 0;                 // of the step
    int first = 0, end = 0;            // its positions
    const std::byte* state = nullptr;  // as sequence_step
    std::byte* next_state = nullptr;
    int drafts = 0;  // likewise
};

/// Consecutive rows of one sequence.
struct attention_span {
    const step_part* part = nullptr;  // K and V of all its positions are already where they go
    int first_row = 0;
    int count = 0;
    const int* positions = nullptr;  // [count] absolute, ascending
};

}  // namespace semantic::engine

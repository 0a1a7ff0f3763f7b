// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sequence's part in a step, and a run of its rows. Plain data.

#include <cstddef>

#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// The rows of one sequence in a step.
struct step_part {
    storage::kv_sequence* cache = nullptr;
    int first_row = 0;                 // its first row in the step
    int first = 0, end = 0;            // positions [first, end) of its tokens
    const std::byte* state = nullptr;  // this and the following: as in sequence_step
    std::byte* next_state = nullptr;
    int drafts = 0;
};

/// Consecutive rows of one sequence.
struct attention_span {
    const step_part* part = nullptr;  // K and V of all its positions are already stored
    int first_row = 0;
    int count = 0;
    const int* positions = nullptr;  // [count] absolute, ascending
};

}  // namespace semantic::engine

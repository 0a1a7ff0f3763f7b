// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides what the next step runs: one token of every sequence that decodes, and at most one chunk
// of one prompt. Pure: a function of the sequences' states, tested as tables, without threads or
// clocks.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduler/policy/prefill_turns.hpp"
#include "engine/scheduler/policy/sequence_view.hpp"
#include "engine/scheduler/policy/step_cost.hpp"

namespace semantic::engine {

struct chunk_policy {
    int min_tokens = 512;
    int max_tokens = 4096;
    int threshold_tokens =
        2048;  // a prompt rest up to this long is run as one chunk when nobody decodes
    // How long a step may take while any sequence decodes. Steps are shorter when many sequences
    // decode, or when answers of other tenants would wait for the prompt's chunk (plan.cpp).
    std::chrono::milliseconds decode_latency{200};
};

struct prefill_chunk {
    std::size_t index = 0;  // into the sequences given
    int tokens = 0;
};

struct step_plan {
    std::vector<std::size_t> decode;  // indices into the sequences given
    std::optional<prefill_chunk> prefill;
    bool empty() const { return decode.empty() && !prefill; }
};

/// Returns: the tokens of a prompt's next chunk when no sequence decodes. `position`: tokens of the
/// prompt that are done; `pending`: those that are left. Later chunks are shorter, because
/// attention makes their tokens cost more.
int chunk_tokens(int position, int pending, const chunk_policy& policy);

/// Counts of the answers that wait for their next token while a chunk runs.
struct waiting_answers {
    int total = 0;
    int foreign = 0;  // of other tenants than the chunk's
};

/// The size of a prompt's next chunk while answers wait: as many tokens as the step has time for,
/// but at least 16 (or all that are left), so that no prompt starves.
int chunk_tokens_beside(waiting_answers waiting, int position, int pending,
                        const chunk_policy& policy, const step_cost& cost);

/// `turns`: says whose chunk is next, from the chunks of earlier steps.
step_plan plan_step(std::span<const sequence_view> running, const chunk_policy& policy,
                    const step_cost& cost, const prefill_turns& turns);

}  // namespace semantic::engine

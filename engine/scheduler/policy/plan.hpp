// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the next step runs. Pure: a function of the sequences' states, tested as tables, without
// threads or clocks. One step = one token for every sequence that decodes, plus at most one chunk
// of one sequence that prefills.

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
    // What a step may take while anybody decodes; a crowd's steps, and those in which other
    // tenants' answers wait for a prompt, are shorter (plan.cpp).
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

/// Tokens of the next chunk of a prompt whose first `position` tokens are done, when nobody
/// decodes: attention makes later chunks dearer, so they get shorter.
int chunk_tokens(int position, int pending, const chunk_policy& policy);

/// Those that wait for their next token while a chunk runs.
struct waiting_answers {
    int total = 0;
    int foreign = 0;  // of other tenants than the chunk's
};

/// The same while answers wait: as many as the step has time for, and a few in every step whatever
/// they cost, so that no prompt starves.
int chunk_tokens_beside(waiting_answers waiting, int position, int pending,
                        const chunk_policy& policy, const step_cost& cost);

/// `turns`: whose chunks the steps before ran.
step_plan plan_step(std::span<const sequence_view> running, const chunk_policy& policy,
                    const step_cost& cost, const prefill_turns& turns);

}  // namespace semantic::engine

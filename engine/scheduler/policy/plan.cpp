// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/plan.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// Positions from which a chunk has half of max_tokens, a quarter of it, and min_tokens.
constexpr int half_from = 2000;
constexpr int quarter_from = 8000;
constexpr int smallest_from = 20000;

// While sequences decode, a chunk is a multiple of this, the number of rows that the kernels
// compute at once.
constexpr int chunk_grain = 16;
// Before any chunk was measured: short enough for the slowest machine, long enough to measure.
constexpr int first_chunk = 64;

// Up to so many decoding sequences wait up to decode_latency for a chunk. With more of them the
// latency is shorter in proportion, so that the sum of all waits does not grow.
constexpr int crowd_from = 8;
// With more sequences than crowd_from, a step may still take a third more time than its decoding
// alone, so that a prompt gets a quarter of the time whatever the latency.
constexpr double crowd_slack = 4.0 / 3.0;

// While answers of other tenants wait, a chunk gets half as much time as their decoding takes: one
// tenant's prompts make others' answers take half as long again, and no longer.
constexpr double foreign_slack = 1.5;

// Seconds that a step with a chunk may take while `waiting` answers want their next token, which
// takes `decode_seconds` without the chunk. All of them wait for the chunk, so the more there are,
// the shorter the step.
double step_seconds(waiting_answers waiting, double decode_seconds, const chunk_policy& policy) {
    const double latency = std::chrono::duration<double>(policy.decode_latency).count();
    const double share = latency * std::min(1.0, static_cast<double>(crowd_from) / waiting.total);
    const double own = std::max(share, std::min(latency, decode_seconds * crowd_slack));
    return waiting.foreign > 0 ? std::min(own, decode_seconds * foreign_slack) : own;
}

}  // namespace

int chunk_tokens(int position, int pending, const chunk_policy& policy) {
    if (pending <= policy.threshold_tokens) return std::min(pending, policy.max_tokens);
    int chunk = position < half_from       ? policy.max_tokens
                : position < quarter_from  ? policy.max_tokens / 2
                : position < smallest_from ? policy.max_tokens / 4
                                           : policy.min_tokens;
    return std::min(pending, std::max(chunk, policy.min_tokens));
}

int chunk_tokens_beside(waiting_answers waiting, int position, int pending,
                        const chunk_policy& policy, const step_cost& cost) {
    int alone = chunk_tokens(position, pending, policy);
    std::optional<double> token_seconds = cost.prefill_seconds(position);
    if (!token_seconds) return std::min(alone, first_chunk);
    const double decode_seconds = cost.decode_seconds(waiting.total);
    double left = step_seconds(waiting, decode_seconds, policy) - decode_seconds;
    double fitting = std::clamp(left / *token_seconds, 0.0, static_cast<double>(alone));
    int grains = static_cast<int>(fitting) / chunk_grain;
    return fitting >= alone ? alone : std::min(alone, std::max(grains, 1) * chunk_grain);
}

step_plan plan_step(std::span<const sequence_view> running, const chunk_policy& policy,
                    const step_cost& cost, const prefill_turns& turns) {
    step_plan step;
    for (std::size_t i = 0; i < running.size(); ++i)
        if (running[i].decoding) step.decode.push_back(i);
    if (auto index = turns.choose(running)) {
        const sequence_view& sequence = running[*index];
        waiting_answers waiting{static_cast<int>(step.decode.size())};
        for (std::size_t i : step.decode)
            waiting.foreign += running[i].tenant != sequence.tenant ? 1 : 0;
        int tokens = waiting.total == 0 ? chunk_tokens(sequence.position, sequence.pending, policy)
                                        : chunk_tokens_beside(waiting, sequence.position,
                                                              sequence.pending, policy, cost);
        const int left = sequence.next_place - sequence.position;
        step.prefill = prefill_chunk{*index, left > 0 ? std::min(tokens, left) : tokens};
    }
    return step;
}

}  // namespace semantic::engine

#include "engine/scheduler/plan.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// Positions at which the chunk halves (2K: half, 8K: a quarter, 20K: the smallest).
constexpr int half_from = 2000;
constexpr int quarter_from = 8000;
constexpr int smallest_from = 20000;

// Whose turn it is among those that prefill: the lowest id above `last`, else the lowest of all.
std::optional<std::size_t> next_prefill(std::span<const sequence_view> running, request_id last) {
    std::optional<std::size_t> above, lowest;
    for (std::size_t i = 0; i < running.size(); ++i) {
        if (running[i].decoding || running[i].pending == 0) continue;
        if (!lowest || running[i].id < running[*lowest].id) lowest = i;
        if (running[i].id > last && (!above || running[i].id < running[*above].id)) above = i;
    }
    return above ? above : lowest;
}

}  // namespace

int chunk_tokens(int position, int pending, bool others_decode, const chunk_policy& policy) {
    if (others_decode) return std::min(pending, policy.min_tokens);
    if (pending <= policy.threshold_tokens) return std::min(pending, policy.max_tokens);
    int chunk = position < half_from       ? policy.max_tokens
                : position < quarter_from  ? policy.max_tokens / 2
                : position < smallest_from ? policy.max_tokens / 4
                                           : policy.min_tokens;
    return std::min(pending, std::max(chunk, policy.min_tokens));
}

step_plan plan_step(std::span<const sequence_view> running, const chunk_policy& policy,
                    request_id last_prefilled) {
    step_plan step;
    for (std::size_t i = 0; i < running.size(); ++i)
        if (running[i].decoding) step.decode.push_back(i);
    if (auto index = next_prefill(running, last_prefilled)) {
        const sequence_view& sequence = running[*index];
        step.prefill = prefill_chunk{*index, chunk_tokens(sequence.position, sequence.pending,
                                                          !step.decode.empty(), policy)};
    }
    return step;
}

}  // namespace semantic::engine

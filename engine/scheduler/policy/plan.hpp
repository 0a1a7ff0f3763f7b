#pragma once
// What the next step runs. Pure: a function of the sequences' states, tested as tables, without
// threads or clocks. One step = one token for every sequence that decodes, plus at most one chunk
// of one sequence that prefills.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduler/policy/step_cost.hpp"
#include "engine/types/generation.hpp"

namespace semantic::engine {

/// A running sequence as the plan sees it.
struct sequence_view {
    request_id id = 0;
    int position = 0;  // tokens whose KV exists
    int pending = 0;   // tokens known but not yet run: the rest of the prompt, or 1 when decoding
    bool decoding = false;  // its prompt is done
    bool waits = false;     // another one reads its prompt's beginning (shared_heads)
    int next_place = 0;     // where a chunk has to end at the latest; 0: nowhere
};

struct chunk_policy {
    int min_tokens = 512;
    int max_tokens = 4096;
    int threshold_tokens =
        2048;  // a prompt rest up to this long is run as one chunk when nobody decodes
    // What a step may take while anybody decodes; a crowd's steps are shorter (plan.cpp).
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

/// The same while `decoding` sequences wait for their next token: as many as the step has time for,
/// and a few in every step whatever they cost, so that no prompt starves.
int chunk_tokens_beside(int decoding, int position, int pending, const chunk_policy& policy,
                        const step_cost& cost);

/// `last_prefilled`: whose chunk the step before ran; prefills take turns in order of id, starting
/// behind it, but for those that wait.
step_plan plan_step(std::span<const sequence_view> running, const chunk_policy& policy,
                    const step_cost& cost, request_id last_prefilled);

}  // namespace semantic::engine

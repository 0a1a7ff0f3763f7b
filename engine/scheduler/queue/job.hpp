// SPDX-License-Identifier: Apache-2.0
#pragma once
// One request on its way through the scheduler. Handed from node to node; only the node that holds
// it writes to it, `cancelled` apart.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/prompt/resolved_prompt.hpp"
#include "engine/scheduler/policy/prompt_marks.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

struct job {
    request_id id = 0;
    generation_request request;
    std::shared_ptr<generation_sink> sink;
    std::chrono::steady_clock::time_point submitted;
    std::atomic<bool> cancelled{false};
    std::optional<std::chrono::steady_clock::time_point> admitted;  // set by the step node
    bool told_to_wait = false;                                      // its sink has had `queued`

    std::optional<resolved_prompt> prompt;  // after resolve
    held_form form;                         // after resolve
    /// The agent and the one it continues: their files stay while the request runs.
    std::vector<storage::agent_cache_store::pin> pins;
    std::shared_ptr<const void> lease{};  // of the agent, among nodes that share an object store
    /// Files of the memory that the request continues, at least until that is restored.
    std::shared_ptr<storage::agent_cache_store::kept_files> files{};
    /// Of sources that a better one has replaced; let go of at the end.
    std::vector<std::shared_ptr<storage::agent_cache_store::kept_files>> outdated_files{};
    std::optional<storage::restored_prefix>
        restored;  // after restore; what of the prefix is really there

    // The step node's, while the request waits for a slot.
    prompt_marks marks{};         // of the prompt
    std::uint64_t looked_at = 0;  // publications when its source was looked for again

    // Once several choices are drawn; the step node's.
    int choices_left = 1;
    int output_tokens = 0;    // of those that are complete
    finished first_end{};     // of choice 0, when that is complete
    bool remembered = false;  // choice 0's memory is published, likewise

    /// The request has its slot: the time that it has waited is none of its own.
    void begin(std::chrono::steady_clock::time_point now) {
        admitted = now;
        if (request.deadline) *request.deadline += now - submitted;
    }
    /// The request asks for its memory to be kept no longer than its answer: it is given up then,
    /// and not written to the disk for it.
    bool drops_memory() const {
        return request.memory.keep_seconds == std::chrono::seconds(0) &&
               !request.memory.pinned.value_or(false);
    }
    bool is_cancelled() const { return cancelled.load(std::memory_order_relaxed); }
    /// Returns: why the request is to end before its answer is complete, if it is. Of one that has
    /// begun: what waits has a client that may leave, and no deadline yet.
    std::optional<stop_reason> wants_to_stop() const {
        if (is_cancelled()) return stop_reason::cancelled;
        if (request.deadline && std::chrono::steady_clock::now() > *request.deadline)
            return stop_reason::deadline;
        return std::nullopt;
    }
};
using job_ptr = std::shared_ptr<job>;

}  // namespace semantic::engine

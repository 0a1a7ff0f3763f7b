// SPDX-License-Identifier: Apache-2.0
#pragma once
// One request on its way through the scheduler's nodes. Only the node that has it now writes to it,
// except for `cancelled`, which any thread sets.

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
    bool told_to_wait = false;  // its client was notified that it waits (event `queued`)

    std::optional<resolved_prompt> prompt;  // after resolve
    held_form form;                         // after resolve
    /// On the request's agent and on the agent whose memory it continues: their files stay on disk
    /// while the request runs.
    std::vector<storage::agent_cache_store::pin> pins;
    /// This node's lease on the agent (agent_claims).
    std::shared_ptr<const void> lease{};
    /// Pins the files of the memory that the request continues, at least until it is restored.
    std::shared_ptr<storage::agent_cache_store::kept_files> files{};
    /// Pins, as `files`, of sources that a better source has replaced; released at the request's
    /// end.
    std::vector<std::shared_ptr<storage::agent_cache_store::kept_files>> outdated_files{};
    /// After restore: the part of the prefix that is really there.
    std::optional<storage::restored_prefix> restored;
    // Written by the step node while the request waits for a slot.
    prompt_marks marks{};         // hashes of the prompt, see head_sharing
    std::uint64_t looked_at = 0;  // delivery::publications() at the last search for a source
    // Written by the step node, for requests with several choices.
    int choices_left = 1;
    int output_tokens = 0;    // of the complete choices
    draft_usage drafts{};     // likewise
    finished first_end{};     // the end of choice 0, once that is complete
    bool remembered = false;  // choice 0 is complete and its memory is published
    /// Notes that the request has got its slot, and moves its deadline by the time it has waited:
    /// a deadline counts from here.
    void begin(std::chrono::steady_clock::time_point now) {
        admitted = now;
        if (request.deadline) *request.deadline += now - submitted;
    }
    /// Whether the client wants its memory kept no longer than its answer takes: then the memory is
    /// dropped at the end and never written to disk.
    bool drops_memory() const {
        return request.memory.keep_seconds == std::chrono::seconds(0) &&
               !request.memory.pinned.value_or(false);
    }
    bool is_cancelled() const { return cancelled.load(std::memory_order_relaxed); }
    /// Returns: the reason to end the request before its answer is complete; nothing if there is
    /// none. Requires: it has begun, because its deadline counts only from begin().
    std::optional<stop_reason> wants_to_stop() const {
        if (is_cancelled()) return stop_reason::cancelled;
        if (request.deadline && std::chrono::steady_clock::now() > *request.deadline)
            return stop_reason::deadline;
        return std::nullopt;
    }
};
using job_ptr = std::shared_ptr<job>;

}  // namespace semantic::engine

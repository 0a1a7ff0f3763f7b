// SPDX-License-Identifier: Apache-2.0
// The variables of the earlier system that mean nothing here.

#include <array>

#include "server/config/config.hpp"

namespace semantic::server {

namespace {

constexpr std::array ignored{
    ignored_variable{"SEMANTIC_SCHEDULER_ENABLED", "requests are always scheduled together"},
    ignored_variable{"SEMANTIC_SCHEDULER_INTERLEAVE_THRESHOLD",
                     "prefill always takes turns with the running answers"},
    ignored_variable{"SEMANTIC_MAX_CONTEXT_LENGTH", "the model says it, or context-tokens"},
    ignored_variable{"SEMANTIC_PREFILL_STEP_SIZE",
                     "prefill-min-chunk and prefill-max-chunk bound a step"},
    ignored_variable{"SEMANTIC_CHUNKED_PREFILL_ENABLED",
                     "prompts longer than chunked-prefill-threshold always come in chunks"},
    ignored_variable{"SEMANTIC_REASONING_EXTRA_TOKENS", "a request gets the tokens it asks for"},
    ignored_variable{"SEMANTIC_DEFAULT_MAX_TOKENS", "a request says it"},
    ignored_variable{"SEMANTIC_DEFAULT_TEMPERATURE",
                     "a request or the model's generation_config.json says it"},
    ignored_variable{"SEMANTIC_SERVER_WORKERS",
                     "one process serves everyone; io-threads and compute-threads size it"},
    ignored_variable{
        "SEMANTIC_SERVER_RATE_LIMIT_PER_AGENT",
        "limits are those of a key: requests-per-minute, tokens-per-minute, concurrent-requests"},
    ignored_variable{"SEMANTIC_SERVER_RATE_LIMIT_GLOBAL",
                     "max-batch and max-queued bound the load of all; requests-per-minute, "
                     "tokens-per-minute and concurrent-requests that of a key"},
    ignored_variable{"SEMANTIC_AGENT_BATCH_WINDOW_MS", "a request joins the step that comes next"},
    ignored_variable{"SEMANTIC_AGENT_LRU_EVICTION_ENABLED",
                     "memory that is short is always taken from the agent idle the longest"},
    ignored_variable{"SEMANTIC_AGENT_EVICT_TO_DISK", "evicted memory is always on disk"},
    ignored_variable{"SEMANTIC_AGENT_VALIDATE_MODEL_TAG", "memory of another model is never used"},
    ignored_variable{"SEMANTIC_AUTH_DISABLED", "clients need a key when api-key is set"},
    ignored_variable{"SEMANTIC_DISABLE_FUSED_ATTN", "kernels chooses how is computed"},
    ignored_variable{"SEMANTIC_ENABLE_METAL_DECODE", "everything is computed on CPUs"},
};

}  // namespace

std::span<const ignored_variable> ignored_variables() { return ignored; }

}  // namespace semantic::server

#pragma once
// One agent's memory as a value.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/block_pool.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

/// One agent's memory: immutable once published, shared between the index and whoever runs the
/// agent.
struct agent_state {
    agent_id id;
    std::vector<token_id> tokens{};  // exactly those whose KV exists, generated ones too
    std::string text{};              // the bytes that `tokens` stand for
    std::vector<std::uint32_t>
        token_ends{};  // [tokens] byte offset in `text` behind token i; never decreasing
    /// ceil(tokens / block_tokens) entries; null where a part is only on disk. Of the sliding
    /// layers only what the window behind the last token reaches stays in the pool once the rest is
    /// saved.
    std::vector<kv_block_parts> blocks{};
    std::chrono::system_clock::time_point created{};
    std::chrono::system_clock::time_point last_used{};
    /// Small facts that travel with the agent and are stored in its manifest (the day its template
    /// was told, its last message id).
    std::map<std::string, std::string> notes{};
};

}  // namespace semantic::storage

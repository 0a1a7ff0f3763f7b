#pragma once
// The memory that a prompt continues furthest: its agent's own, or what it has in common with
// another one's. Owner: resolver. Thread: const methods are safe from any thread; no disk, no
// waiting.

#include <cstddef>
#include <map>
#include <memory>
#include <string_view>

#include "engine/prompt/prefix_match.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// A memory, and how much of it a prompt continues.
struct prompt_source {
    std::shared_ptr<const storage::agent_state> state;
    prefix_match match;
};

inline bool is_whole(match_kind kind) {
    return kind == match_kind::exact || kind == match_kind::extend;
}

/// Where a prompt may be cut, asked of the tokenizer once for each place: agents that share a
/// prefix are asked about the same places, and each answer may take milliseconds.
class prompt_cuts {
  public:
    prompt_cuts(const tokenizer& words, std::string_view prompt) : words_(words), prompt_(prompt) {}

    boundary_rules rules();
    std::string_view prompt() const { return prompt_; }

  private:
    bool is_safe(std::size_t at);

    const tokenizer& words_;
    std::string_view prompt_;
    std::map<std::size_t, bool> known_;
};

class source_search {
  public:
    source_search(const tokenizer& words, const storage::agent_cache_store& store)
        : tokenizer_(words), store_(store) {}

    /// What the request's agent remembers; null without an agent or a memory.
    std::shared_ptr<const storage::agent_state> own_memory(const generation_request& request) const;
    prompt_source match(std::shared_ptr<const storage::agent_state> state, prompt_cuts& of) const;
    /// Of all memories that the request may continue, the one that it continues furthest.
    prompt_source best(const generation_request& request, prompt_cuts& of) const;
    prompt_cuts cuts_of(std::string_view prompt) const { return {tokenizer_, prompt}; }

  private:
    const tokenizer& tokenizer_;
    const storage::agent_cache_store& store_;
};

}  // namespace semantic::engine

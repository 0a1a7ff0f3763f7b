// SPDX-License-Identifier: Apache-2.0
#pragma once
// Searches the memory of which a prompt can reuse most (its "source"): that of its own agent, or
// the beginning of another agent's. Owner: resolver. Thread: const methods are safe from any
// thread; they read no disk and do not wait.
//
// An agent's own memory is matched by text, and its tokens are reused as they were sampled. Of
// another agent's memory only canonical tokens are reused, those that the prompt tokenises to by
// itself: a model may sample other tokens of the same text, and an answer must not depend on what
// other agents were asked.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/prompt/prefix_match.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// The tokenisation of a text.
struct tokenised_text {
    std::vector<token_id> tokens;
    std::vector<std::uint32_t> token_ends;  // [tokens] byte offset in the text after each
};

/// A memory, and how much of it a prompt reuses.
struct prompt_source {
    std::shared_ptr<const storage::agent_state> state;
    prefix_match match;
    /// The memory is the request's own: its tokens are reused as they are stored.
    bool as_sampled = false;
    /// The whole prompt's tokens, if the search made them; not to be used if as_sampled.
    std::shared_ptr<const tokenised_text> prompt{};
};

/// Whether the prompt has all of the memory, or all of the prompt is in the memory.
inline bool is_whole(match_kind kind) {
    return kind == match_kind::exact || kind == match_kind::extend;
}

/// The text of a prompt during the search for its source. Remembers what the tokenizer answers:
/// memories that share a prefix raise the same questions, and an answer may take milliseconds.
class searched_prompt {
  public:
    /// `prompt` must outlive this.
    searched_prompt(const tokenizer& words, const marked_text& prompt)
        : words_(words), prompt_(prompt), text_(prompt.bytes()) {}

    std::string_view text() const { return text_; }
    const marked_text& prompt() const { return prompt_; }
    /// The text and its control tokens.
    prompt_view view();
    /// The questions about the prompt's tokenisation that matching asks; valid as long as this.
    boundary_rules rules();
    /// The whole prompt's tokens, made at the first call.
    const std::shared_ptr<const tokenised_text>& tokens();
    /// The whole prompt's tokens if they were made: null before tokens() was called.
    const std::shared_ptr<const tokenised_text>& known_tokens() const { return tokens_; }

  private:
    /// Whether the text can be cut at a byte without changing its tokens.
    bool is_safe(std::size_t at);
    bool spells_rest_of_character(std::size_t at) const;

    const tokenizer& words_;
    const marked_text& prompt_;
    std::string_view text_;
    std::optional<std::vector<control_token>> control_;  // made by the first view()
    std::map<std::size_t, bool> safe_;                   // answers of is_safe(), by byte offset
    std::shared_ptr<const tokenised_text> tokens_;       // null until tokens() is called
};

/// Whether another request extends an agent right now.
using busy_agents = std::function<bool(const storage::agent_id&)>;

class source_search {
  public:
    source_search(const tokenizer& words, const storage::agent_cache_store& store)
        : tokenizer_(words), store_(store) {}

    /// The memory of the request's agent; null if it names none, or the agent has no memory.
    std::shared_ptr<const storage::agent_state> own_memory(const generation_request& request) const;
    /// The memory of the request's agent or, for a new agent, of the parent that the request names;
    /// null if there is none.
    std::shared_ptr<const storage::agent_state> own_or_parents_memory(
        const generation_request& request) const;
    /// `prompt` must outlive what is returned.
    searched_prompt search_for(const marked_text& prompt) const { return {tokenizer_, prompt}; }
    searched_prompt search_for(marked_text&&) const = delete;

    /// The bytes that a prompt and a memory have in common from the start; see common_bytes().
    static std::size_t common_with(const storage::agent_state& state, searched_prompt& prompt);

    /// How much the prompt reuses of its own agent's memory `state`; nothing if that is null.
    prompt_source match_own(std::shared_ptr<const storage::agent_state> state,
                            searched_prompt& prompt) const;
    /// Returns: of all memories of the request's tenant, the one of which the prompt reuses most;
    /// its agent's own, or its parent's, if the prompt has all of that.
    prompt_source best(const generation_request& request, searched_prompt& prompt) const;
    /// Returns: of the tenant's anonymous conversations that are not busy, the one that `prompt`
    /// continues furthest, matched as the prompt's own memory.
    prompt_source anonymous_conversation(const storage::tenant_id& tenant, searched_prompt& prompt,
                                         const busy_agents& busy) const;

  private:
    /// How much the prompt reuses of another agent's memory: canonical tokens only.
    prompt_source match_others(std::shared_ptr<const storage::agent_state> state,
                               searched_prompt& prompt) const;

    const tokenizer& tokenizer_;
    const storage::agent_cache_store& store_;
};

/// Whether the agent was made by the engine, for a request that named none.
bool is_anonymous(const storage::agent_id& id);
/// A new, random id of such an agent, of the default tenant.
storage::agent_id new_anonymous_id();
constexpr std::string_view anonymous_prefix = "msg_";

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory that a prompt continues furthest: its agent's own, or what it has in common with
// another one's. Owner: resolver. Thread: const methods are safe from any thread; no disk, no
// waiting.
//
// An agent's own memory is matched by text and goes on with its tokens as they were sampled. From
// another agent's memory a prompt gets only tokens that it tokenises to by itself: what a model
// samples may spell a text with other tokens, and an answer must not depend on who else was asked.

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

/// A text's own tokens.
struct tokenised_text {
    std::vector<token_id> tokens;
    std::vector<std::uint32_t> token_ends;  // [tokens] byte offset in the text after each
};

/// A memory, and how much of it a prompt continues.
struct prompt_source {
    std::shared_ptr<const storage::agent_state> state;
    prefix_match match;
    bool as_sampled = false;  // the request's own: tokens are as stored, whatever the text's are
    /// The whole prompt's tokens where the search made them; of use unless as_sampled.
    std::shared_ptr<const tokenised_text> prompt{};
};

inline bool is_whole(match_kind kind) {
    return kind == match_kind::exact || kind == match_kind::extend;
}

/// The text of a prompt whose source is searched. Each question to the tokenizer is asked once:
/// agents that share a prefix are asked about the same places, and an answer may take milliseconds.
class searched_prompt {
  public:
    /// `prompt` must outlive this.
    searched_prompt(const tokenizer& words, const marked_text& prompt)
        : words_(words), prompt_(prompt), text_(prompt.bytes()) {}

    std::string_view text() const { return text_; }
    const marked_text& prompt() const { return prompt_; }
    /// The text and its control tokens.
    prompt_view view();
    boundary_rules rules();
    const std::shared_ptr<const tokenised_text>& tokens();
    /// Null before tokens() was called.
    const std::shared_ptr<const tokenised_text>& known_tokens() const { return tokens_; }

  private:
    bool is_safe(std::size_t at);
    bool spells_rest_of_character(std::size_t at) const;

    const tokenizer& words_;
    const marked_text& prompt_;
    std::string_view text_;
    std::optional<std::vector<control_token>> control_;
    std::map<std::size_t, bool> safe_;  // by byte offset
    std::shared_ptr<const tokenised_text> tokens_;
};

/// Whether another request extends an agent right now.
using busy_agents = std::function<bool(const storage::agent_id&)>;

class source_search {
  public:
    source_search(const tokenizer& words, const storage::agent_cache_store& store)
        : tokenizer_(words), store_(store) {}

    /// What the request's agent remembers; null without an agent or a memory.
    std::shared_ptr<const storage::agent_state> own_memory(const generation_request& request) const;
    /// The same, and for a new agent what the parent does that the request names.
    std::shared_ptr<const storage::agent_state> own_or_parents_memory(
        const generation_request& request) const;
    /// `prompt` must outlive what is returned.
    searched_prompt search_for(const marked_text& prompt) const { return {tokenizer_, prompt}; }
    searched_prompt search_for(marked_text&&) const = delete;

    /// What a prompt has in common with a memory, in bytes; see engine::common_bytes().
    static std::size_t common_with(const storage::agent_state& state, searched_prompt& prompt);

    /// `state`: a memory of the request's own, or null.
    prompt_source match_own(std::shared_ptr<const storage::agent_state> state,
                            searched_prompt& prompt) const;
    /// Of all memories that the request may share, the one that reaches furthest.
    prompt_source best(const generation_request& request, searched_prompt& prompt) const;
    /// Of the tenant's anonymous conversations that are not busy, the one that `prompt` continues
    /// furthest. A prompt that continues all of one is that conversation's next turn, and the
    /// memory its own.
    prompt_source anonymous_conversation(const storage::tenant_id& tenant, searched_prompt& prompt,
                                         const busy_agents& busy) const;

  private:
    prompt_source match_others(std::shared_ptr<const storage::agent_state> state,
                               searched_prompt& prompt) const;

    const tokenizer& tokenizer_;
    const storage::agent_cache_store& store_;
};

/// Whether an agent was made for requests that name none.
bool is_anonymous(const storage::agent_id& id);
/// A new one, of the default tenant.
storage::agent_id new_anonymous_id();
constexpr std::string_view anonymous_prefix = "msg_";

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Constrains one answer to a grammar, token by token: says which tokens may come next. Owner: the
// sequence that generates the answer. Not for use from two threads at once.

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/vocabulary_trie.hpp"

namespace semantic::engine {

class output_constraint {
  public:
    /// Work (automaton positions) that an answer may cost before its first token, and for each
    /// token more: far above what forms that people write need. Unspent work accumulates up to
    /// work_at_first.
    static constexpr std::int64_t work_at_first = 6'000'000;
    static constexpr std::int64_t work_per_token = 50'000;
    /// Bytes that the automaton may take between two tokens, and that are kept after a token.
    static constexpr std::size_t automaton_bytes_max = std::size_t{16} << 20;
    static constexpr std::size_t kept_automaton_bytes_max = std::size_t{4} << 20;

    /// `words`, `trie` and `stop_tokens` (sorted) must outlive this. `kept_bytes`: bytes of the
    /// automaton that are kept after a token. All methods that look at the grammar throw
    /// grammar_too_large if it can be read in too many ways.
    output_constraint(std::shared_ptr<const grammar_program> program, const tokenizer& words,
                      const vocabulary_trie& trie, const std::vector<token_id>& stop_tokens,
                      std::size_t kept_bytes = kept_automaton_bytes_max);
    /// A constraint with a program of its own, made of `rules`; for the others see above.
    output_constraint(std::shared_ptr<const grammar> rules, const tokenizer& words,
                      const vocabulary_trie& trie, const std::vector<token_id>& stop_tokens);
    /// Allows so much work for now, in automaton positions; no_slice: no limit. Beyond it the other
    /// methods throw grammar_unfinished; the same call after another begin_slice() continues, and
    /// gives the result that one call would have given.
    void begin_slice(std::int64_t places) { matcher_.begin_slice(places); }
    /// The outlook that a program for this needs: the bytes of the longest short word.
    static constexpr int outlook_bytes = static_cast<int>(vocabulary_trie::short_bytes_max);

    /// Whether `token` may come next. Stop tokens may if the answer is complete.
    bool allows(token_id token);
    /// Moves the state over a token that allows() has allowed; does nothing for stop tokens.
    void take(token_id token);
    /// Returns: `logits`, with -infinity for tokens that may not come next; valid until the next
    /// call. Empty if no token may come next.
    std::span<const float> masked(std::span<const float> logits);
    /// Whether the mask for the current state is cached, so that masked() costs hardly anything.
    bool knows_mask();
    /// Nodes of the vocabulary's trie that masked() has looked at so far, as a measure of work.
    std::size_t walked_nodes() const { return walked_nodes_; }
    /// States that the automaton has made so far, as a measure of work.
    std::size_t states() const { return matcher_.state_count(); }
    /// Bytes of the automaton and the cached masks, about.
    std::size_t memory_bytes() const;

  private:
    /// Whether the token is a stop token.
    bool ends_turn(token_id token) const;
    /// The state after `token` in the current state; dead if it may not come next.
    grammar_matcher::state state_after(token_id token);
    using token_set = std::vector<std::uint64_t>;  // a bit for each token
    /// A walk through the vocabulary, kept when a slice ends, so that the next call continues it.
    struct open_walk {
        const vocabulary_trie::part* words = nullptr;  // null: there is none
        std::size_t next = 0;                          // the next node to look at
        std::vector<grammar_matcher::state> path;      // [depth] state after so many bytes
        token_set found;
    };

    /// The current state.
    grammar_matcher::state here();
    token_set walk(const vocabulary_trie::part& words, bool looks_alike);
    void forbid_ends(token_set& words) const;
    std::size_t mask_bytes() const;
    /// The tokens that may come next, without stop tokens. From the cache, or made.
    const token_set& allowed_here();

    const tokenizer& tokenizer_;
    const vocabulary_trie& trie_;
    const std::vector<token_id>& stop_tokens_;
    const std::size_t kept_bytes_;
    grammar_matcher matcher_;
    std::optional<grammar_matcher::state> at_;  // nothing: the start, which is not computed yet
    std::unordered_map<grammar_matcher::state, token_set>
        allowed_;  // cached masks of short words, by look_alike()
    std::size_t walked_nodes_ = 0;
    open_walk open_walk_;
    token_set here_;             // allowed_here() with long words, too; empty until asked for
    std::vector<float> masked_;  // [vocabulary] result of masked()
};

}  // namespace semantic::engine

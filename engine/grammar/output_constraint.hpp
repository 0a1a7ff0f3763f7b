// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holds one answer to a grammar, token by token. Owner: the sequence that generates it. Not for use
// from two threads at once.

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
    /// Work that an answer's tokens may cost before any is taken, and for each one more: far above
    /// what forms take that people write. What is not spent adds up to the first again.
    static constexpr std::int64_t work_at_first = 6'000'000;
    static constexpr std::int64_t work_per_token = 50'000;
    /// What the automaton may take between two tokens, and what is kept of it after one.
    static constexpr std::size_t automaton_bytes_max = std::size_t{16} << 20;
    static constexpr std::size_t kept_automaton_bytes_max = std::size_t{4} << 20;

    /// `words`, `trie` and `stop_tokens` (sorted) must outlive this. `kept_bytes`: what is kept of
    /// the automaton after a token. Whatever looks at the grammar throws grammar_too_large where it
    /// can be read in too many ways.
    output_constraint(std::shared_ptr<const grammar_program> program, const tokenizer& words,
                      const vocabulary_trie& trie, const std::vector<token_id>& stop_tokens,
                      std::size_t kept_bytes = kept_automaton_bytes_max);
    /// The same, with a program of its own.
    output_constraint(std::shared_ptr<const grammar> rules, const tokenizer& words,
                      const vocabulary_trie& trie, const std::vector<token_id>& stop_tokens);
    /// Lets so much work be done for now, in places that the automaton looks at; no_slice: no end
    /// to it. Beyond it the other calls throw grammar_unfinished: called alike with a new slice
    /// they go on, and come to what they had come to at once.
    void begin_slice(std::int64_t places) { matcher_.begin_slice(places); }
    /// As far as a program for this has to look ahead.
    static constexpr int outlook_bytes = static_cast<int>(vocabulary_trie::short_bytes_max);

    /// Whether `token` may come next; one that ends the turn may when the answer is whole.
    bool allows(token_id token);
    /// Takes up a token that allows() let through; one that ends the turn changes nothing.
    void take(token_id token);
    /// `logits` with those of tokens that may not come next at -infinity; valid until the next
    /// call. Empty when no token may.
    std::span<const float> masked(std::span<const float> logits);
    /// Whether masked() is known here from what came before, and costs next to nothing.
    bool knows_mask();
    /// Nodes of the vocabulary that masked() has looked at so far: its work.
    std::size_t walked_nodes() const { return walked_nodes_; }
    /// States that the grammar's automaton has met so far: the rest of the work.
    std::size_t states() const { return matcher_.state_count(); }
    /// What the automaton and the masks that are remembered take in memory, about.
    std::size_t memory_bytes() const;

  private:
    bool ends_turn(token_id token) const;
    grammar_matcher::state state_after(token_id token);
    using token_set = std::vector<std::uint64_t>;  // a bit for each token
    /// A walk through the vocabulary that is under way.
    struct open_walk {
        const vocabulary_trie::part* words = nullptr;  // null: none is
        std::size_t next = 0;                          // node
        std::vector<grammar_matcher::state> path;      // [depth] after that many bytes
        token_set found;
    };

    grammar_matcher::state here();
    token_set walk(const vocabulary_trie::part& words, bool looks_alike);
    void forbid_ends(token_set& words) const;
    std::size_t mask_bytes() const;
    const token_set& allowed_here();

    const tokenizer& tokenizer_;
    const vocabulary_trie& trie_;
    const std::vector<token_id>& stop_tokens_;
    const std::size_t kept_bytes_;
    grammar_matcher matcher_;
    std::optional<grammar_matcher::state> at_;  // nothing: where the answer starts
    std::unordered_map<grammar_matcher::state, token_set>
        allowed_;  // key: look_alike(); short words
    std::size_t walked_nodes_ = 0;
    open_walk open_walk_;
    token_set here_;  // allowed_here() where there are long words; empty until asked for
    std::vector<float> masked_;
};

}  // namespace semantic::engine

#pragma once
// Holds one answer to a grammar, token by token. Owner: the sequence that generates it. Not for use
// from two threads at once.

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/vocabulary_trie.hpp"

namespace semantic::engine {

class output_constraint {
  public:
    /// `words`, `trie` and `stop_tokens` (sorted) must outlive this.
    output_constraint(std::shared_ptr<const grammar> rules, const tokenizer& words,
                      const vocabulary_trie& trie, const std::vector<token_id>& stop_tokens);

    /// Whether `token` may come next; one that ends the turn may when the answer is whole.
    bool allows(token_id token);
    /// Takes up a token that allows() let through; one that ends the turn changes nothing.
    void take(token_id token);
    /// `logits` with those of tokens that may not come next at -infinity; valid until the next
    /// call. Empty when no token may.
    std::span<const float> masked(std::span<const float> logits);

  private:
    bool ends_turn(token_id token) const;
    grammar_matcher::state behind(token_id token);
    const std::vector<token_id>& allowed_here();

    const tokenizer& tokenizer_;
    const vocabulary_trie& trie_;
    const std::vector<token_id>& stop_tokens_;
    grammar_matcher matcher_;
    grammar_matcher::state at_;
    std::unordered_map<grammar_matcher::state, std::vector<token_id>> allowed_;
    std::size_t allowed_tokens_ = 0;  // in all lists of allowed_
    std::vector<float> masked_;
};

}  // namespace semantic::engine

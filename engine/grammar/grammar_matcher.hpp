#pragma once
// Runs a grammar over an answer: all ways to read it at once, as stacks that share their lower
// parts. Each set of stacks met is a state, and the way from state to state is remembered, so text
// of a kind seen before costs one look-up a byte. One object per answer; not for use from two
// threads at once.

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

class grammar_matcher {
  public:
    using state = std::uint32_t;
    static constexpr state dead = 0;  // nothing can follow: the text does not match

    explicit grammar_matcher(std::shared_ptr<const grammar> rules);

    state start() const { return start_; }
    /// Returns: the state behind `byte`, or dead.
    state step(state from, unsigned char byte);
    /// The same for a special token.
    state step_token(state from, token_id token);
    /// Whether the answer may end here.
    bool accepts(state at) const { return states_[at].accepts; }
    /// Whether any byte or token may follow.
    bool goes_on(state at) const { return !states_[at].stacks.empty(); }
    /// Special tokens that may follow.
    std::vector<token_id> tokens_at(state at) const;
    std::size_t state_count() const { return states_.size(); }

  private:
    using stack = std::uint32_t;  // index into nodes_; 0 is empty
    struct node {
        std::uint32_t position;  // into program_: what this level waits for next
        stack below;
    };
    struct state_info {
        std::vector<stack> stacks;  // sorted; the top of each waits for bytes or a token
        bool accepts = false;
        std::vector<state> next;  // [byte classes]; empty until asked for
    };
    static constexpr state unknown = static_cast<state>(-1);

    void flatten();
    void classify_bytes();
    stack push(std::uint32_t position, stack below);
    void close(std::uint32_t position, stack below, state_info& out);
    state intern(state_info made);
    template <class Takes>
    state move(state from, Takes takes);

    std::shared_ptr<const grammar> grammar_;
    std::vector<grammar::symbol> program_;  // every alternative, each behind it an end mark
    std::vector<std::vector<std::uint32_t>> starts_;  // [rule] positions of its alternatives
    std::array<std::uint16_t, 256> class_of_{};       // bytes that no set tells apart
    std::size_t classes_ = 0;

    std::vector<node> nodes_;
    std::unordered_map<std::uint64_t, stack> node_index_;
    std::vector<state_info> states_;
    std::unordered_map<std::uint64_t, std::vector<state>> state_index_;  // by hash of stacks
    std::unordered_set<std::uint64_t> closed_;  // scratch: what close() has been through
    state start_ = dead;
};

}  // namespace semantic::engine

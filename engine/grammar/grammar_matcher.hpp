#pragma once
// Runs a grammar over an answer: all ways to read it at once, as stacks that share their lower
// parts. Each set of stacks met is a state, and the way from state to state is remembered, so text
// of a kind seen before costs one look-up a byte. One object per answer; not for use from two
// threads at once. A grammar that can be read in too many ways at once is given up: whatever makes
// or moves a state throws grammar_too_large.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/pair_index.hpp"

namespace semantic::engine {

class grammar_matcher {
  public:
    using state = std::uint32_t;
    static constexpr state dead = 0;  // nothing can follow: the text does not match

    /// `outlook_bytes`: how far look_alike() looks; 0 where it is not asked.
    explicit grammar_matcher(std::shared_ptr<const grammar> rules, int outlook_bytes = 0);

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
    /// Returns: a state that lets the same texts of at most outlook_bytes bytes through as `at`,
    /// the same one for all that are known to be alike. A string that is long enough is one thing,
    /// with 1000 characters to go or with 999.
    state look_alike(state at);
    std::size_t state_count() const { return states_.size(); }

  private:
    std::u32string outlook(state at) const;

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

    using chain_labels = std::map<std::array<int, 4>, char32_t>;

    void flatten();
    void add_labels(std::size_t rule, const grammar::sequence& alternative, chain_labels& known);
    void classify_bytes();
    stack push(std::uint32_t position, stack below);
    void begin_state();
    /// Adds to made_. Throws grammar_too_large.
    void close(std::uint32_t position, stack below);
    void close_one(std::uint32_t position, stack below);
    /// Empties made_.
    state intern();
    template <class Takes>
    state move(state from, Takes takes);

    std::shared_ptr<const grammar> grammar_;
    const int outlook_bytes_;
    std::vector<grammar::symbol> program_;  // every alternative, each behind it an end mark
    std::vector<char32_t> labels_;          // [position] the same where an outlook is
    std::vector<int> bytes_least_;          // [position] bytes that its alternative takes from here
    std::vector<std::vector<std::uint32_t>> starts_;  // [rule] positions of its alternatives
    std::array<std::uint16_t, 256> class_of_{};       // bytes that no set tells apart
    std::size_t classes_ = 0;

    std::vector<node> nodes_;
    pair_index node_index_;  // position and stack below: index into nodes_
    std::vector<state_info> states_;
    pair_index state_index_;          // the two halves of a hash of stacks: index into states_
    std::vector<state> look_alikes_;  // [state]; `unknown` until asked for
    std::unordered_map<std::u32string, state> by_outlook_;
    state_info made_;            // scratch: a state while it is put together
    pair_index closed_;          // scratch: what close() has been through
    std::vector<node> pending_;  // scratch: what it has still to go through
    int closure_left_ = 0;
    std::int64_t work_left_;
    state start_ = dead;
};

}  // namespace semantic::engine

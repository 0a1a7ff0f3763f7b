// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matches an answer against a grammar, byte by byte. A context-free grammar may read a text in
// several ways, so the matcher follows all of them at once, as stacks of grammar positions that
// share their lower parts. Each set of stacks is a state, and transitions between states are
// remembered, so text of a kind seen before costs one look-up a byte. One object per answer; not
// for use from two threads at once.
//
// Work is counted in places: positions of the grammar that are looked at. Methods that make or look
// at states throw grammar_too_large beyond the limits of work and memory, which ends the answer.
// They throw grammar_unfinished when the slice of work for this step is used up: the same call with
// a new slice continues where it stopped.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/grammar_program.hpp"
#include "engine/grammar/pair_index.hpp"

namespace semantic::engine {

/// Thrown when a slice of work is used up; the same call with a new slice continues.
class grammar_unfinished : public std::runtime_error {
  public:
    grammar_unfinished() : std::runtime_error("the grammar's slice of work is used up") {}
};

class grammar_matcher {
  public:
    using state = std::uint32_t;
    static constexpr state dead = 0;  // nothing can follow: the text does not match
    static constexpr std::int64_t no_slice = std::numeric_limits<std::int64_t>::max();

    struct limits {
        std::int64_t work = 30'000'000;             // places: about a second
        std::size_t bytes = std::size_t{16} << 20;  // of states and their indexes
    };

    explicit grammar_matcher(std::shared_ptr<const grammar_program> program)
        : grammar_matcher(std::move(program), limits()) {}
    grammar_matcher(std::shared_ptr<const grammar_program> program, const limits& most);
    /// A matcher with a program of its own. `outlook_bytes`: as grammar_program's.
    explicit grammar_matcher(std::shared_ptr<const grammar> rules, int outlook_bytes = 0)
        : grammar_matcher(
              std::make_shared<const grammar_program>(std::move(rules), outlook_bytes)) {}

    /// The state before the first byte. Requires: forget_all_but() was not called.
    state start();
    /// Returns: the state after `byte`, or dead.
    state step(state from, unsigned char byte);
    /// Returns: the state after a special token, or dead.
    state step_token(state from, token_id token);
    /// Whether the answer may end here.
    bool accepts(state at) const { return states_[at].accepts; }
    /// Whether a byte or token may follow.
    bool goes_on(state at) const { return !states_[at].stacks.empty(); }
    /// The only byte that may follow; nothing if there is a choice, the answer may end, or a
    /// special token may follow.
    std::optional<unsigned char> only_byte(state at);
    /// Special tokens that may follow.
    std::vector<token_id> tokens_at(state at);
    /// Returns: a representative of all known states that allow the same texts of at most
    /// outlook_bytes bytes as `at`. So a mask of tokens is made once for many states: a long string
    /// allows the same next tokens with 1000 characters left as with 999.
    state look_alike(state at);
    /// States made so far, including forgotten ones.
    std::size_t state_count() const { return forgotten_states_ + states_.size(); }
    /// Bytes of memory now, about.
    std::size_t memory_bytes() const {
        return bytes_ + closed_.memory_bytes() + pending_.capacity() * sizeof(node);
    }
    /// Allows `work` more places; at most `work_max` may be left unused.
    void grant_work(std::int64_t work, std::int64_t work_max);
    /// Starts a slice of so many places, in place of what is left of the former one; no_slice: no
    /// limit.
    void begin_slice(std::int64_t places) { slice_left_ = places; }
    /// Takes places of the slice for work that the caller does itself.
    void spend_slice(std::int64_t places);
    /// Forgets all states but `at`, to free memory. Returns: the new number of `at`; all other
    /// numbers are invalid from now on.
    state forget_all_but(state at);

  private:
    /// Two hashes of what may follow within outlook_bytes, by which look-alikes are found.
    using outlook = std::pair<std::uint64_t, std::uint64_t>;
    struct outlook_hash {
        std::size_t operator()(const outlook& of_state) const noexcept { return of_state.first; }
    };
    outlook outlook_of(state at);

    using stack = std::uint32_t;  // index into nodes_; 0 is empty
    struct node {
        std::uint32_t position;  // in program_: the symbol that comes next on this level
        stack below;
    };
    struct state_info {
        std::vector<stack> stacks;  // sorted; the top of each is a set of bytes or a token
        bool accepts = false;
        std::vector<state> next;  // by class of bytes; empty until asked for
    };
    static constexpr state unknown = static_cast<state>(-1);
    /// A transition that is being computed, in made_, closed_ and pending_. Kept when a slice ends,
    /// so that the next call continues.
    struct open_move {
        state from = unknown;
        std::uint64_t taken = 0;  // the class of bytes, or the token, that is read
        std::size_t next = 0;     // the next stack of `from`, or start of the root, to look at
        bool is_for(state asked_from, std::uint64_t asked) const {
            return from == asked_from && taken == asked;
        }
    };
    /// A state whose outlook is being computed, and the stacks that are done. Kept as open_move.
    struct open_outlook {
        state at = unknown;
        std::vector<outlook> stacks;
    };

    /// Counts work. Throws grammar_too_large if none is left.
    void spend(std::size_t places);
    /// Throws grammar_unfinished if the slice is used up.
    void end_slice_where_due() const {
        if (slice_left_ < 0) throw grammar_unfinished();
    }
    /// Counts memory. Throws grammar_too_large beyond the limit.
    void take_bytes(std::size_t count);
    /// The stack with `position` on top of `below`; equal stacks are one.
    stack push(std::uint32_t position, stack below);
    void begin_state();
    /// Begins the transition, or goes on with the same one that a slice's end interrupted, first
    /// with what is left in pending_.
    void begin_move(state from, std::uint64_t taken, std::size_t places);
    /// Adds the stacks that are reached from `position` above `below` to made_. Throws
    /// grammar_too_large, and grammar_unfinished when a slice ends: what is still to visit stays in
    /// pending_ then, and close_pending() goes on with it.
    void close(std::uint32_t position, stack below);
    void close_pending();
    void close_one(std::uint32_t position, stack below);
    /// The state with the stacks of made_, which is emptied: a known state or a new one.
    state intern();
    /// The state after reading `taken` in `from`: advances the stacks for whose top symbol
    /// takes(symbol) is true.
    template <class Takes>
    state move(state from, std::uint64_t taken, Takes takes);

    std::shared_ptr<const grammar_program> program_;
    limits limits_;
    std::int64_t work_left_;              // places that may still be looked at
    std::int64_t slice_left_ = no_slice;  // the same in this step; negative: used up
    std::size_t bytes_ = 0;               // of states, nodes and outlooks

    std::vector<node> nodes_;         // [0]: the empty stack
    pair_index node_index_;           // position and stack below: index into nodes_
    std::vector<state_info> states_;  // [0]: dead
    pair_index state_index_;          // the two halves of a hash of stacks: index into states_
    std::vector<state> look_alikes_;  // [state]; `unknown` until asked for
    std::unordered_map<outlook, state, outlook_hash> by_outlook_;
    state_info made_;            // scratch: a state while it is put together
    pair_index closed_;          // scratch: positions that close() has visited
    std::vector<node> pending_;  // scratch: positions that it has still to visit
    open_move open_move_;
    open_outlook open_outlook_;
    std::size_t closure_left_ = 0;      // of closure_max, for the state that is being made
    std::size_t forgotten_states_ = 0;  // by forget_all_but()
    state start_ = unknown;
};

}  // namespace semantic::engine

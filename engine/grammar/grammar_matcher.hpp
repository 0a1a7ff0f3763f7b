// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a grammar over an answer: all ways to read it at once, as stacks that share their lower
// parts. Each set of stacks met is a state, and the way from state to state is remembered, so text
// of a kind seen before costs one look-up a byte. One object per answer; not for use from two
// threads at once. A grammar that can be read in too many ways at once is given up: whatever makes
// or moves a state, or looks at one, throws grammar_too_large beyond the limits of work and memory.
// It throws grammar_unfinished where the slice of work that it may do for now is used up: asked the
// same again with a new slice it goes on where it stopped.

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

/// A slice of work was used up; nothing is lost by it.
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
        std::int64_t work = 30'000'000;             // places looked at: a second or so
        std::size_t bytes = std::size_t{16} << 20;  // of states and what they are found by
    };

    explicit grammar_matcher(std::shared_ptr<const grammar_program> program)
        : grammar_matcher(std::move(program), limits()) {}
    grammar_matcher(std::shared_ptr<const grammar_program> program, const limits& most);
    /// A matcher that shares its program with none. `outlook_bytes`: as grammar_program's.
    explicit grammar_matcher(std::shared_ptr<const grammar> rules, int outlook_bytes = 0)
        : grammar_matcher(
              std::make_shared<const grammar_program>(std::move(rules), outlook_bytes)) {}

    /// Requires: forget_all_but() was not called.
    state start();
    /// Returns: the state after `byte`, or dead.
    state step(state from, unsigned char byte);
    /// The same for a special token.
    state step_token(state from, token_id token);
    /// Whether the answer may end here.
    bool accepts(state at) const { return states_[at].accepts; }
    /// Whether any byte or token may follow.
    bool goes_on(state at) const { return !states_[at].stacks.empty(); }
    /// The byte that alone may follow; nothing where there is a choice, the answer may end, or a
    /// special token may come.
    std::optional<unsigned char> only_byte(state at);
    /// Special tokens that may follow.
    std::vector<token_id> tokens_at(state at);
    /// Returns: a state that lets the same texts of at most outlook_bytes bytes through as `at`,
    /// the same one for all that are known to be alike. A string that is long enough is one thing,
    /// with 1000 characters to go or with 999.
    state look_alike(state at);
    /// States made so far, forgotten ones too.
    std::size_t state_count() const { return forgotten_states_ + states_.size(); }
    /// What it takes in memory now, about.
    std::size_t memory_bytes() const {
        return bytes_ + closed_.memory_bytes() + pending_.capacity() * sizeof(node);
    }
    /// Lets so much more work be done, up to `work_max` that is not done yet.
    void grant_work(std::int64_t work, std::int64_t work_max);
    /// Lets places be looked at for now, whatever was left before; no_slice: no end to it.
    void begin_slice(std::int64_t places) { slice_left_ = places; }
    /// Work of the same slice that the caller does itself.
    void spend_slice(std::int64_t places);
    /// Frees what is remembered of all other states. Returns: what `at` is called from here on.
    state forget_all_but(state at);

  private:
    /// What a look-alike is found by: two hashes of what lies ahead.
    using outlook = std::pair<std::uint64_t, std::uint64_t>;
    struct outlook_hash {
        std::size_t operator()(const outlook& of_state) const noexcept { return of_state.first; }
    };
    outlook outlook_of(state at);

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
    /// A state that is being put together, in made_, closed_ and pending_.
    struct open_move {
        state from = unknown;
        std::uint64_t taken = 0;  // what leads there: a class of bytes, or a token
        std::size_t next = 0;     // stack of `from`, or start of the root
        bool is_for(state asked_from, std::uint64_t asked) const {
            return from == asked_from && taken == asked;
        }
    };
    /// A state whose outlook is being made, and the stacks that are done.
    struct open_outlook {
        state at = unknown;
        std::vector<outlook> stacks;
    };

    void spend(std::size_t places);
    void end_slice_where_due() const {
        if (slice_left_ < 0) throw grammar_unfinished();
    }
    void take_bytes(std::size_t count);
    stack push(std::uint32_t position, stack below);
    void begin_state();
    void begin_move(state from, std::uint64_t taken, std::size_t places);
    /// Adds to made_. Throws grammar_too_large.
    void close(std::uint32_t position, stack below);
    void close_pending();
    void close_one(std::uint32_t position, stack below);
    /// Empties made_.
    state intern();
    template <class Takes>
    state move(state from, std::uint64_t taken, Takes takes);

    std::shared_ptr<const grammar_program> program_;
    limits limits_;
    std::int64_t work_left_;
    std::int64_t slice_left_ = no_slice;
    std::size_t bytes_ = 0;  // of states, nodes and outlooks

    std::vector<node> nodes_;
    pair_index node_index_;  // position and stack below: index into nodes_
    std::vector<state_info> states_;
    pair_index state_index_;          // the two halves of a hash of stacks: index into states_
    std::vector<state> look_alikes_;  // [state]; `unknown` until asked for
    std::unordered_map<outlook, state, outlook_hash> by_outlook_;
    state_info made_;            // scratch: a state while it is put together
    pair_index closed_;          // scratch: what close() has been through
    std::vector<node> pending_;  // scratch: what it has still to go through
    open_move open_move_;
    open_outlook open_outlook_;
    std::size_t closure_left_ = 0;
    std::size_t forgotten_states_ = 0;
    state start_ = unknown;
};

}  // namespace semantic::engine

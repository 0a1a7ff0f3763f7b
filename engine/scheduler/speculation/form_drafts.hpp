// SPDX-License-Identifier: Apache-2.0
#pragma once
// Guesses what the form of an answer leaves: where one byte alone may follow, such as within the
// name of a schema's property, the bytes up to the next choice; and at a choice, such as between
// the blank after a colon and none, the token that the answer took in that place or, where it is
// new, after the same token before. Of what texts and numbers say it guesses nothing. Follows the
// answer on an automaton of its own, so that no guess spends what the answer may cost. Owner:
// drafting. Thread: one at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/scheduler/speculation/draft_source.hpp"
#include "engine/scheduler/speculation/learned_chance.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"

namespace semantic::engine {

class form_drafts : public draft_source {
  public:
    /// Places of the automaton that one step looks at: 0.1 ms on a current core. What is left is
    /// gone on with in the next step.
    static constexpr std::int64_t places_a_step = 2'000;
    /// What the automaton may take; beyond it nothing is guessed any more. Above kept_bytes_max all
    /// is forgotten but where the answer is.
    static constexpr std::size_t automaton_bytes_max = std::size_t{384} << 10;
    static constexpr std::size_t kept_bytes_max = std::size_t{192} << 10;
    static constexpr std::size_t habits_max = 512;
    /// Bytes of one way without a choice.
    static constexpr std::size_t way_bytes_max = 128;

    /// `begin`: the index of the answer's first token. `words` must outlive this.
    form_drafts(std::shared_ptr<const grammar_program> program, const tokenizer& words,
                std::size_t begin);

    void catch_up(std::span<const token_id> tokens) override;
    draft_guess guess(std::span<const token_id> tokens, int most) override;
    void learn(int run, int taken) override;
    /// Of the guess of another source: how many of its first tokens the form lets through, as far
    /// as the step's bound lets that be found out; all where it is not known yet.
    std::size_t count_allowed(std::span<const token_id> guessed);
    std::size_t memory_bytes() const override;
    /// Upper bound of memory_bytes(), about.
    static constexpr std::size_t habit_bytes = 64;
    static constexpr std::size_t bytes_max = automaton_bytes_max + 2 * habits_max * habit_bytes;

  private:
    using state = grammar_matcher::state;
    /// What the answer did at states that look alike.
    struct habit {
        token_id token = 0;  // the latest
        int in_a_row = 1;    // how often it came since another one did
        bool has_changed = false;
        bool is_kept() const { return !has_changed || in_a_row >= kept_in_a_row; }
    };
    /// What the answer did at choices after one token: the latest two that differ.
    struct followers {
        token_id latest = 0;
        std::optional<token_id> before{};
    };
    static constexpr int kept_in_a_row = 3;

    template <class Action>
    bool attempt(Action action);
    void read_answer(std::span<const token_id> tokens);
    bool is_open(state at);
    void note_choice(state at, std::optional<token_id> last, token_id token);
    std::optional<token_id> find_choice(state at, std::optional<token_id> last);
    std::optional<token_id> find_follower(state at, std::optional<token_id> last);
    std::optional<token_id> last_read(std::span<const token_id> tokens) const;
    /// Tokens up to the next choice, and the state after them.
    std::vector<token_id> find_only_way(state& at);
    std::vector<token_id> continue_answer(std::optional<token_id> last, std::size_t most);
    state state_after(state at, token_id token);

    std::optional<grammar_matcher> matcher_;  // nothing: the form is too large for guesses
    const tokenizer& tokenizer_;
    const std::size_t begin_;
    std::size_t read_;  // at_ is after so many tokens
    std::optional<state> at_;
    bool is_at_end_ = false;                   // at_ is after all tokens of the latest call
    std::unordered_map<state, habit> habits_;  // key: look_alike()
    std::unordered_map<token_id, followers> followers_;  // key: the token before
    learned_chance chance_{0.8};
    bool has_guessed_ = false;
};

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Guesses the next tokens of an answer that a form (a grammar, such as that of a JSON schema)
// constrains. Where the form allows a single next byte, as within a property's name, it guesses the
// bytes up to the next choice. At a choice, such as a blank or none after a colon, it guesses the
// token that the answer took at the same state of the form before, or else after the same token. It
// guesses nothing inside free text and numbers. It runs its own automaton, so that guesses do not
// use up what the answer's automaton may cost. Owner: drafting. Thread: one at a time.

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
    /// Automaton positions that one step may look at: 0.1 ms on a current core. The next step
    /// continues with the rest.
    static constexpr std::int64_t places_a_step = 2'000;
    /// Bytes that the automaton may take; beyond that this source stops guessing. Above
    /// kept_bytes_max it forgets all states but the current one.
    static constexpr std::size_t automaton_bytes_max = std::size_t{384} << 10;
    static constexpr std::size_t kept_bytes_max = std::size_t{192} << 10;
    static constexpr std::size_t habits_max = 512;  // entries of habits_, and of followers_
    /// Bytes that are guessed between two choices at most.
    static constexpr std::size_t way_bytes_max = 128;

    /// `begin`: the index of the answer's first token. `words` must outlive this.
    form_drafts(std::shared_ptr<const grammar_program> program, const tokenizer& words,
                std::size_t begin);

    void catch_up(std::span<const token_id> tokens) override;
    draft_guess guess(std::span<const token_id> tokens, int most) override;
    void learn(int run, int taken) override;
    /// Returns: how many of the first tokens of another source's guess the form allows. Checks only
    /// as many as the step's share of work allows; all, if this source has not caught up.
    std::size_t count_allowed(std::span<const token_id> guessed);
    std::size_t memory_bytes() const override;
    /// Upper bound of memory_bytes(), about.
    static constexpr std::size_t habit_bytes = 64;
    static constexpr std::size_t bytes_max = automaton_bytes_max + 2 * habits_max * habit_bytes;

  private:
    using state = grammar_matcher::state;
    /// The tokens that the answer took at states that look alike.
    struct habit {
        token_id token = 0;        // the latest
        int in_a_row = 1;          // how often it came without another in between
        bool has_changed = false;  // another token came there before
        bool is_kept() const { return !has_changed || in_a_row >= kept_in_a_row; }
    };
    /// The latest two different tokens that the answer took at choices after one token.
    struct followers {
        token_id latest = 0;
        std::optional<token_id> before{};
    };
    static constexpr int kept_in_a_row = 3;  // a changed habit counts again after so many
    template <class Action>
    bool attempt(Action action);
    /// Moves the automaton over the answer's new tokens, and notes its choices.
    void read_answer(std::span<const token_id> tokens);
    bool is_open(state at);
    void note_choice(state at, std::optional<token_id> last, token_id token);
    std::optional<token_id> find_choice(state at, std::optional<token_id> last);
    std::optional<token_id> find_follower(state at, std::optional<token_id> last);
    /// The answer's last token that the automaton has read; nothing before the first.
    std::optional<token_id> last_read(std::span<const token_id> tokens) const;
    /// Returns: the tokens that spell the only bytes that may come up to the next choice; none at a
    /// choice. Moves `at` to the state after these bytes.
    std::vector<token_id> find_only_way(state& at);
    /// Returns: the guess, at most `most` tokens. `last`: the token before it.
    std::vector<token_id> continue_answer(std::optional<token_id> last, std::size_t most);
    /// The state after `token`, read in the state `at`; dead if the form does not allow it.
    state state_after(state at, token_id token);

    std::optional<grammar_matcher> matcher_;  // nothing: the form is too large for guesses
    const tokenizer& tokenizer_;
    const std::size_t begin_;
    std::size_t read_;         // tokens that the automaton has read, the prompt's included
    std::optional<state> at_;  // the automaton's state after these
    bool is_at_end_ = false;   // at_ is after all tokens of the latest catch_up()
    std::unordered_map<state, habit> habits_;            // key: look_alike()
    std::unordered_map<token_id, followers> followers_;  // key: the token before
    learned_chance chance_{0.8};                         // of a guessed token to be right
    bool has_guessed_ = false;  // the latest guess() had tokens, and learn() was not called
};

}  // namespace semantic::engine

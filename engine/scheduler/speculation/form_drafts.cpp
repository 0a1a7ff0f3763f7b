// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/form_drafts.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace semantic::engine {

form_drafts::form_drafts(std::shared_ptr<const grammar_program> program, const tokenizer& words,
                         std::size_t begin)
    : matcher_(std::in_place, std::move(program),
               grammar_matcher::limits{grammar_matcher::no_slice, automaton_bytes_max}),
      tokenizer_(words),
      begin_(begin),
      read_(begin) {}

/// Runs an action that uses the automaton. Returns: false if the action was broken off because the
/// step's share of work is spent, or because the automaton has become too large; in the second case
/// all guessing ends.
template <class Action>
bool form_drafts::attempt(Action action) {
    if (!matcher_) return false;
    try {
        action();
        return true;
    } catch (const grammar_unfinished&) {
        return false;
    } catch (const grammar_too_large&) {
        matcher_.reset();
        habits_ = {};
        followers_ = {};
        return false;
    }
}

void form_drafts::catch_up(std::span<const token_id> tokens) {
    is_at_end_ = false;
    if (!matcher_) return;
    matcher_->begin_slice(places_a_step);
    is_at_end_ = attempt([&] { read_answer(tokens); }) && read_ == tokens.size();
}

void form_drafts::read_answer(std::span<const token_id> tokens) {
    if (!at_) at_ = matcher_->start();
    while (read_ < tokens.size()) {
        const token_id token = tokens[read_];
        const state next = state_after(*at_, token);
        note_choice(*at_, last_read(tokens), token);
        at_ = next;
        ++read_;
        // Known states cost the automaton nothing: this keeps the loop bounded all the same.
        matcher_->spend_slice(1);
    }
    if (matcher_->memory_bytes() <= kept_bytes_max) return;
    at_ = matcher_->forget_all_but(*at_);
    habits_.clear();  // its keys are states that have other numbers now
}

form_drafts::state form_drafts::state_after(state at, token_id token) {
    if (tokenizer_.is_special(token)) return matcher_->step_token(at, token);
    const std::string_view bytes = tokenizer_.bytes(token);
    if (bytes.empty()) return grammar_matcher::dead;
    for (char c : bytes) at = matcher_->step(at, static_cast<unsigned char>(c));
    return at;
}

std::optional<token_id> form_drafts::last_read(std::span<const token_id> tokens) const {
    return read_ > begin_ ? std::optional(tokens[read_ - 1]) : std::nullopt;
}

// Whether the form allows free text or free digits here, so that it says nothing about what comes
// next. Two digits are tried because one alone may be the only choice of an enumeration.
bool form_drafts::is_open(state at) {
    const auto allows = [&](unsigned char byte) {
        return matcher_->step(at, byte) != grammar_matcher::dead;
    };
    return allows('~') || (allows('3') && allows('4'));
}

// Remembers `token`, which the answer took at a choice: by the state `at`, and by the token `last`
// before it. States in free text, and those with one possible byte, are no choices.
void form_drafts::note_choice(state at, std::optional<token_id> last, token_id token) {
    if (is_open(at) || matcher_->only_byte(at)) return;
    const state alike = matcher_->look_alike(at);
    if (habits_.size() < habits_max || habits_.contains(alike)) {
        const auto [known, is_new] = habits_.try_emplace(alike, habit{token});
        habit& here = known->second;
        if (!is_new) {
            here.has_changed = here.has_changed || here.token != token;
            here.in_a_row = here.token == token ? here.in_a_row + 1 : 1;
            here.token = token;
        }
    }
    if (!last || (followers_.size() >= habits_max && !followers_.contains(*last))) return;
    const auto [known, is_new] = followers_.try_emplace(*last, followers{token});
    if (!is_new && known->second.latest != token) known->second = {token, known->second.latest};
}

// Guesses the token at a choice: the one that the answer took at a state that looks alike, or where
// that is new, after the same token `last`.
std::optional<token_id> form_drafts::find_choice(state at, std::optional<token_id> last) {
    const auto known = habits_.find(matcher_->look_alike(at));
    if (known == habits_.end()) return find_follower(at, last);
    return known->second.is_kept() ? std::optional(known->second.token) : std::nullopt;
}

// Of the two tokens that the answer latest took after `last`, the later one that the form allows.
std::optional<token_id> form_drafts::find_follower(state at, std::optional<token_id> last) {
    const auto known = last ? followers_.find(*last) : followers_.end();
    if (known == followers_.end()) return std::nullopt;
    const auto may_come = [&](token_id token) {
        return state_after(at, token) != grammar_matcher::dead;
    };
    if (may_come(known->second.latest)) return known->second.latest;
    const std::optional<token_id> before = known->second.before;
    return before && may_come(*before) ? before : std::nullopt;
}

std::vector<token_id> form_drafts::find_only_way(state& at) {
    std::string way;
    state next = at;
    while (way.size() < way_bytes_max) {
        const std::optional<unsigned char> byte = matcher_->only_byte(next);
        if (!byte) break;
        way += static_cast<char>(*byte);
        next = matcher_->step(next, *byte);
    }
    if (way.empty()) return {};
    at = next;
    return tokenizer_.encode(way);
}

std::vector<token_id> form_drafts::continue_answer(std::optional<token_id> last, std::size_t most) {
    std::vector<token_id> out;
    // By turns the bytes that have no choice, and a guess at the next choice.
    for (state at = *at_; out.size() < most && at != grammar_matcher::dead && !is_open(at);) {
        const std::vector<token_id> way = find_only_way(at);
        if (!way.empty()) {
            out.insert(out.end(), way.begin(), way.end());
            last = way.back();
            continue;
        }
        const std::optional<token_id> token = find_choice(at, last);
        if (!token) break;
        at = state_after(at, *token);
        if (at != grammar_matcher::dead) out.push_back(*token);
        last = token;
    }
    out.resize(std::min(out.size(), most));
    return out;
}

draft_guess form_drafts::guess(std::span<const token_id> tokens, int most) {
    draft_guess found;
    if (is_at_end_ && most > 0)
        attempt([&] {
            found.tokens = continue_answer(last_read(tokens), static_cast<std::size_t>(most));
        });
    has_guessed_ = !found.tokens.empty();
    found.chance = chance_.value();
    return found;
}

void form_drafts::learn(int run, int taken) {
    if (!std::exchange(has_guessed_, false)) return;
    if (run > 0)
        chance_.learn(run, taken);
    else
        chance_.forget();
}

std::size_t form_drafts::count_allowed(std::span<const token_id> guessed) {
    if (!is_at_end_ || !matcher_) return guessed.size();
    std::size_t allowed = 0;
    attempt([&] {
        for (state at = *at_; allowed < guessed.size(); ++allowed) {
            at = state_after(at, guessed[allowed]);
            if (at == grammar_matcher::dead) return;
        }
    });
    return allowed;
}

std::size_t form_drafts::memory_bytes() const {
    return (matcher_ ? matcher_->memory_bytes() : 0) +
           (habits_.size() + followers_.size()) * habit_bytes;
}

}  // namespace semantic::engine

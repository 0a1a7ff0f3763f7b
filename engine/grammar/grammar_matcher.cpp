// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/grammar_matcher.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// The most places that may be looked at for one state.
constexpr std::size_t closure_max = 200'000;
// Scratch that is kept from state to state.
constexpr std::size_t scratch_bytes_max = std::size_t{1} << 20;

// Values of open_move::taken that are no class of bytes: the start, and the flag of a token.
constexpr std::uint64_t the_start = std::uint64_t{1} << 63;
constexpr std::uint64_t a_token = std::uint64_t{1} << 62;

// Memory of one of each, including its share of the indexes.
constexpr std::size_t node_bytes = 72;
constexpr std::size_t state_bytes = 136;
constexpr std::size_t outlook_bytes_each = 64;

// FNV-1a, 64 bit. Source: http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash_of(const std::vector<std::uint32_t>& stacks, bool accepts) {
    std::uint64_t hash = accepts ? 0xcbf29ce484222325u : 0x84222325cbf29ce4u;
    for (std::uint32_t stack : stacks) hash = (hash ^ stack) * 0x100000001b3u;
    return hash;
}

// Two hashes at once: that both collide is so unlikely that equal pairs count as equal outlooks.
class outlook_hasher {
  public:
    void add(std::uint64_t value) {
        first_ = (first_ ^ value) * 0x9E3779B97F4A7C15u;
        first_ ^= first_ >> 32;
        second_ = (second_ + value) * 0xD6E8FEB86659FD93u;
        second_ ^= second_ >> 29;
    }
    std::pair<std::uint64_t, std::uint64_t> value() const { return {first_, second_}; }

  private:
    std::uint64_t first_ = 0xcbf29ce484222325u, second_ = 0x84222325cbf29ce4u;
};

}  // namespace

grammar_matcher::grammar_matcher(std::shared_ptr<const grammar_program> program, const limits& most)
    : program_(std::move(program)), limits_(most), work_left_(most.work) {
    nodes_.push_back({});    // the empty stack
    states_.emplace_back();  // dead
}

grammar_matcher::state grammar_matcher::start() {
    if (start_ != unknown) return start_;
    begin_move(dead, the_start, 0);
    const auto starts = program_->starts_of(program_->rules->root);
    while (open_move_.next < starts.size()) close(starts[open_move_.next++], 0);
    start_ = intern();
    return start_;
}

void grammar_matcher::spend(std::size_t places) {
    work_left_ -= static_cast<std::int64_t>(places);
    if (work_left_ < 0) throw grammar_too_large();
    slice_left_ -= static_cast<std::int64_t>(places);
}

void grammar_matcher::spend_slice(std::int64_t places) {
    slice_left_ -= places;
    end_slice_where_due();
}

void grammar_matcher::take_bytes(std::size_t count) {
    bytes_ += count;
    if (memory_bytes() > limits_.bytes) throw grammar_too_large();
}

void grammar_matcher::grant_work(std::int64_t work, std::int64_t work_max) {
    if (work_left_ < work_max) work_left_ = std::min(work_left_ + work, work_max);
}

grammar_matcher::stack grammar_matcher::push(std::uint32_t position, stack below) {
    auto [known, is_new] = node_index_.add(position, below, static_cast<stack>(nodes_.size()));
    if (is_new) {
        nodes_.push_back({position, below});
        take_bytes(node_bytes);
    }
    return known;
}

// Prepares the scratch members for a new state: an earlier one that was given up has left entries.
void grammar_matcher::begin_state() {
    if (closed_.memory_bytes() > scratch_bytes_max) closed_ = {};
    if (pending_.capacity() * sizeof(node) > scratch_bytes_max) pending_ = {};
    closed_.clear();
    pending_.clear();
    made_.stacks.clear();
    made_.accepts = false;
    closure_left_ = closure_max;
}

// Starts computing a transition; if it is the one that was interrupted when a slice ended,
// continues that instead.
void grammar_matcher::begin_move(state from, std::uint64_t taken, std::size_t places) {
    if (open_move_.is_for(from, taken)) {
        close_pending();
        return;
    }
    open_move_ = {};
    spend(places);
    begin_state();
    open_move_ = {from, taken, 0};
}

// Enters rules, and leaves completed ones, until each stack has a set of bytes or a token on top.
void grammar_matcher::close(std::uint32_t position, stack below) {
    spend(1);
    pending_.push_back({position, below});
    close_pending();
}

void grammar_matcher::close_pending() {
    while (!pending_.empty()) {
        end_slice_where_due();
        const node next = pending_.back();
        pending_.pop_back();
        close_one(next.position, next.below);
    }
}

/// Follows a position to where it waits for a byte or a token, and adds what it finds to the state
/// that is being made: at the end of a rule it returns to the rule below, and at a rule it begins
/// each of its alternatives.
void grammar_matcher::close_one(std::uint32_t position, stack below) {
    while (program_->is_end(position)) {
        if (below == 0) {
            made_.accepts = true;
            return;
        }
        position = nodes_[below].position;
        below = nodes_[below].below;
    }
    const grammar::symbol& waits_for = program_->symbols[position];
    if (waits_for.type != grammar::kind::rule) {
        made_.stacks.push_back(push(position, below));
        return;
    }
    // A position that was visited already (by another way, or by recursion) adds nothing.
    if (!closed_.add(position, below, 0).second) return;
    // If the symbol is the last of its alternative no level is pushed: right recursion, as in
    // lists, does not make stacks grow.
    const stack under = program_->is_end(position + 1) ? below : push(position + 1, below);
    const auto starts = program_->starts_of(waits_for.index);
    // Checked before the alternatives are added: a rule may have very many.
    if (starts.size() + 1 > closure_left_) throw grammar_too_large();
    closure_left_ -= starts.size() + 1;
    spend(starts.size());
    for (std::uint32_t start : starts) pending_.push_back({start, under});
}

grammar_matcher::state grammar_matcher::intern() {
    open_move_ = {};
    std::vector<stack>& stacks = made_.stacks;
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
    state found = dead;
    if (!stacks.empty() || made_.accepts) {
        const std::uint64_t hash = hash_of(stacks, made_.accepts);
        auto made = static_cast<state>(states_.size());
        auto [known, is_new] = state_index_.add(static_cast<std::uint32_t>(hash >> 32),
                                                static_cast<std::uint32_t>(hash), made);
        // On a collision of hashes both are states of their own; the index finds the first one
        // only, and the other is made again when it is met.
        bool same =
            !is_new && states_[known].stacks == stacks && states_[known].accepts == made_.accepts;
        if (!same) {
            take_bytes(state_bytes + stacks.size() * sizeof(stack));
            states_.push_back(made_);
        }
        found = same ? known : made;
    }
    stacks.clear();
    made_.accepts = false;
    return found;
}

template <class Takes>
grammar_matcher::state grammar_matcher::move(state from, std::uint64_t taken, Takes takes) {
    // The tops of four stacks take about as long as one place.
    begin_move(from, taken, states_[from].stacks.size() / 4);
    while (open_move_.next < states_[from].stacks.size()) {
        const node top = nodes_[states_[from].stacks[open_move_.next++]];
        if (takes(program_->symbols[top.position])) close(top.position + 1, top.below);
    }
    return intern();
}

grammar_matcher::state grammar_matcher::step(state from, unsigned char byte) {
    if (from == dead) return dead;
    // Bytes of one class share a transition, which is computed once.
    const std::size_t group = program_->class_of[byte];
    if (states_[from].next.empty()) {
        take_bytes(program_->classes * sizeof(state) + 16);
        states_[from].next.assign(program_->classes, unknown);
    }
    if (state known = states_[from].next[group]; known != unknown) return known;
    state to = move(from, group, [&](const grammar::symbol& s) {
        return s.type == grammar::kind::bytes && program_->rules->byte_sets[s.index].test(byte);
    });
    states_[from].next[group] = to;
    return to;
}

grammar_matcher::state grammar_matcher::step_token(state from, token_id token) {
    const std::uint64_t taken = a_token | static_cast<std::uint32_t>(token);
    return move(from, taken, [&](const grammar::symbol& s) {
        return s.type == grammar::kind::token && s.index == static_cast<std::uint32_t>(token);
    });
}

grammar_matcher::state grammar_matcher::look_alike(state at) {
    if (look_alikes_.size() <= at) look_alikes_.resize(states_.size(), unknown);
    if (look_alikes_[at] == unknown) {
        const auto [known, is_new] = by_outlook_.try_emplace(outlook_of(at), at);
        look_alikes_[at] = known->second;
        if (is_new) take_bytes(outlook_bytes_each);
    }
    return look_alikes_[at];
}

// Hashes the top of each stack and the levels below it, as far as texts of outlook_bytes can reach.
grammar_matcher::outlook grammar_matcher::outlook_of(state at) {
    constexpr std::uint32_t bottom = grammar_program::end_mark, too_far = bottom - 1;
    if (open_outlook_.at != at) {
        open_outlook_ = {at, {}};
        open_outlook_.stacks.reserve(states_[at].stacks.size());
    }
    std::vector<outlook>& each = open_outlook_.stacks;
    while (each.size() < states_[at].stacks.size()) {
        end_slice_where_due();
        stack top = states_[at].stacks[each.size()];
        outlook_hasher levels;
        std::size_t count = 1;
        int bytes = 0;
        for (; top != 0 && bytes < program_->outlook_bytes; top = nodes_[top].below, ++count) {
            const std::uint32_t position = nodes_[top].position;
            levels.add(program_->labels[position]);
            bytes = std::min(grammar::bytes_far, bytes + program_->bytes_least[position]);
        }
        spend(count);
        levels.add(top == 0 ? bottom : too_far);
        each.push_back(levels.value());
    }
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
    outlook_hasher all;
    for (const outlook& levels : each) {
        all.add(levels.first);
        all.add(levels.second);
    }
    open_outlook_ = {};
    return all.value();
}

std::optional<unsigned char> grammar_matcher::only_byte(state at) {
    if (states_[at].accepts) return std::nullopt;
    // As in move(): the tops of four stacks count as one place.
    spend(1 + states_[at].stacks.size() / 4);
    end_slice_where_due();
    byte_set all;
    for (stack top : states_[at].stacks) {
        const grammar::symbol& s = program_->symbols[nodes_[top].position];
        if (s.type != grammar::kind::bytes) return std::nullopt;
        all |= program_->rules->byte_sets[s.index];
        if (all.count() > 1) return std::nullopt;
    }
    for (std::size_t byte = 0; byte < all.size(); ++byte)
        if (all.test(byte)) return static_cast<unsigned char>(byte);
    // No stack: nothing may follow.
    return std::nullopt;
}

std::vector<token_id> grammar_matcher::tokens_at(state at) {
    spend(states_[at].stacks.size() / 8);
    std::vector<token_id> out;
    for (stack top : states_[at].stacks) {
        const grammar::symbol& s = program_->symbols[nodes_[top].position];
        if (s.type == grammar::kind::token) out.push_back(static_cast<token_id>(s.index));
    }
    return out;
}

// Marks the levels that the kept stacks use. A level always has a higher number than the levels
// below it, so one pass from the last number to the first marks all of them.
grammar_matcher::state grammar_matcher::forget_all_but(state at) {
    spend(nodes_.size() / 8 + states_.size() / 8);
    forgotten_states_ += states_.size();
    state_info kept = std::move(states_[at]);
    kept.next.clear();
    kept.next.shrink_to_fit();
    std::vector<stack> renamed(nodes_.size(), 0);
    for (stack top : kept.stacks) renamed[top] = 1;
    for (std::size_t i = nodes_.size(); i-- > 1;)
        if (renamed[i] != 0) renamed[nodes_[i].below] = 1;
    renamed[0] = 0;  // the empty stack stays what it is
    std::vector<node> nodes = std::move(nodes_);
    nodes_ = {node{}};
    node_index_ = {};
    bytes_ = 0;
    for (std::size_t i = 1; i < nodes.size(); ++i)
        if (renamed[i] != 0) renamed[i] = push(nodes[i].position, renamed[nodes[i].below]);
    for (stack& top : kept.stacks) top = renamed[top];
    states_ = std::vector<state_info>(1);  // dead
    state_index_ = {};
    look_alikes_ = {};
    by_outlook_ = {};
    open_outlook_ = {};
    start_ = dead;
    begin_state();
    made_ = std::move(kept);
    return intern();
}

}  // namespace semantic::engine

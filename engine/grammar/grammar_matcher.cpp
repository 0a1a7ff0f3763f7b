#include "engine/grammar/grammar_matcher.hpp"

#include <algorithm>
#include <map>

namespace semantic::engine {

namespace {

constexpr std::uint32_t end_mark = static_cast<std::uint32_t>(-1);

std::uint64_t pair_key(std::uint32_t position, std::uint32_t below) {
    return (static_cast<std::uint64_t>(position) << 32) | below;
}

// FNV-1a, 64 bit. Source: http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash_of(const std::vector<std::uint32_t>& stacks, bool accepts) {
    std::uint64_t hash = accepts ? 0xcbf29ce484222325u : 0x84222325cbf29ce4u;
    for (std::uint32_t stack : stacks) hash = (hash ^ stack) * 0x100000001b3u;
    return hash;
}

}  // namespace

grammar_matcher::grammar_matcher(std::shared_ptr<const grammar> rules)
    : grammar_(std::move(rules)) {
    flatten();
    classify_bytes();
    nodes_.push_back({});    // the empty stack
    states_.emplace_back();  // dead
    state_info first;
    for (std::uint32_t position : starts_[grammar_->root]) close(position, 0, first);
    start_ = intern(std::move(first));
}

void grammar_matcher::flatten() {
    for (const auto& alternatives : grammar_->rules) {
        auto& starts = starts_.emplace_back();
        for (const grammar::sequence& alternative : alternatives) {
            starts.push_back(static_cast<std::uint32_t>(program_.size()));
            program_.insert(program_.end(), alternative.begin(), alternative.end());
            program_.push_back({grammar::kind::rule, end_mark});
        }
    }
}

// Two bytes are of one class when every set holds both or neither.
void grammar_matcher::classify_bytes() {
    std::map<std::vector<bool>, std::uint16_t> known;
    for (std::size_t byte = 0; byte < 256; ++byte) {
        std::vector<bool> in;
        for (const byte_set& set : grammar_->byte_sets) in.push_back(set.test(byte));
        auto [it, added] = known.try_emplace(in, static_cast<std::uint16_t>(known.size()));
        class_of_[byte] = it->second;
    }
    classes_ = known.size();
}

grammar_matcher::stack grammar_matcher::push(std::uint32_t position, stack below) {
    auto [it, added] =
        node_index_.try_emplace(pair_key(position, below), static_cast<stack>(nodes_.size()));
    if (added) nodes_.push_back({position, below});
    return it->second;
}

// Goes down into rules and up out of finished ones until each stack waits for a byte or a token.
void grammar_matcher::close(std::uint32_t position, stack below, state_info& out) {
    while (program_[position] == grammar::symbol{grammar::kind::rule, end_mark}) {
        if (below == 0) {
            out.accepts = true;
            return;
        }
        position = nodes_[below].position;
        below = nodes_[below].below;
    }
    const grammar::symbol& waits_for = program_[position];
    if (waits_for.what != grammar::kind::rule) {
        out.stacks.push_back(push(position, below));
        return;
    }
    // Reached a second time, by another way or from itself, it adds nothing.
    if (!closed_.insert(pair_key(position, below)).second) return;
    // What is finished with its last symbol leaves no level behind, so lists do not pile up.
    bool last = program_[position + 1] == grammar::symbol{grammar::kind::rule, end_mark};
    stack under = last ? below : push(position + 1, below);
    for (std::uint32_t start : starts_[waits_for.index]) close(start, under, out);
}

grammar_matcher::state grammar_matcher::intern(state_info made) {
    std::sort(made.stacks.begin(), made.stacks.end());
    made.stacks.erase(std::unique(made.stacks.begin(), made.stacks.end()), made.stacks.end());
    if (made.stacks.empty() && !made.accepts) return dead;
    auto& same = state_index_[hash_of(made.stacks, made.accepts)];
    for (state known : same)
        if (states_[known].stacks == made.stacks && states_[known].accepts == made.accepts)
            return known;
    same.push_back(static_cast<state>(states_.size()));
    states_.push_back(std::move(made));
    return same.back();
}

template <class Takes>
grammar_matcher::state grammar_matcher::move(state from, Takes takes) {
    state_info made;
    closed_.clear();
    for (std::size_t i = 0; i < states_[from].stacks.size(); ++i) {
        node top = nodes_[states_[from].stacks[i]];
        if (takes(program_[top.position])) close(top.position + 1, top.below, made);
    }
    return intern(std::move(made));
}

grammar_matcher::state grammar_matcher::step(state from, unsigned char byte) {
    if (from == dead) return dead;
    std::size_t group = class_of_[byte];
    if (states_[from].next.empty()) states_[from].next.assign(classes_, unknown);
    if (state known = states_[from].next[group]; known != unknown) return known;
    state to = move(from, [&](const grammar::symbol& s) {
        return s.what == grammar::kind::bytes && grammar_->byte_sets[s.index].test(byte);
    });
    states_[from].next[group] = to;
    return to;
}

grammar_matcher::state grammar_matcher::step_token(state from, token_id token) {
    return move(from, [&](const grammar::symbol& s) {
        return s.what == grammar::kind::token && s.index == static_cast<std::uint32_t>(token);
    });
}

std::vector<token_id> grammar_matcher::tokens_at(state at) const {
    std::vector<token_id> out;
    for (stack top : states_[at].stacks) {
        const grammar::symbol& s = program_[nodes_[top].position];
        if (s.what == grammar::kind::token) out.push_back(static_cast<token_id>(s.index));
    }
    return out;
}

}  // namespace semantic::engine

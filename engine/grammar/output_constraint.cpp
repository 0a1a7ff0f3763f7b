// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/output_constraint.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace semantic::engine {

namespace {

// The most bytes of cached masks for an answer; beyond it the cache is emptied.
constexpr std::size_t remembered_bytes_max = std::size_t{4} << 20;
// Nodes of the trie that take as long as one position of the automaton.
constexpr std::size_t nodes_a_place = 8;

}  // namespace

output_constraint::output_constraint(std::shared_ptr<const grammar_program> program,
                                     const tokenizer& words, const vocabulary_trie& trie,
                                     const std::vector<token_id>& stop_tokens,
                                     std::size_t kept_bytes)
    : tokenizer_(words),
      trie_(trie),
      stop_tokens_(stop_tokens),
      kept_bytes_(kept_bytes),
      matcher_(std::move(program), {work_at_first, automaton_bytes_max}) {}

output_constraint::output_constraint(std::shared_ptr<const grammar> rules, const tokenizer& words,
                                     const vocabulary_trie& trie,
                                     const std::vector<token_id>& stop_tokens)
    : output_constraint(std::make_shared<const grammar_program>(std::move(rules), outlook_bytes),
                        words, trie, stop_tokens) {}

bool output_constraint::ends_turn(token_id token) const {
    return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

// The start is computed here and not in the constructor, because it may take more than one slice.
grammar_matcher::state output_constraint::here() {
    if (!at_) at_ = matcher_.start();
    return *at_;
}

grammar_matcher::state output_constraint::state_after(token_id token) {
    if (tokenizer_.is_special(token)) return matcher_.step_token(here(), token);
    std::string_view bytes = tokenizer_.bytes(token);
    if (bytes.empty()) return grammar_matcher::dead;
    grammar_matcher::state state = here();
    for (char c : bytes) state = matcher_.step(state, static_cast<unsigned char>(c));
    return state;
}

bool output_constraint::allows(token_id token) {
    if (ends_turn(token)) return matcher_.accepts(here());
    return state_after(token) != grammar_matcher::dead;
}

void output_constraint::take(token_id token) {
    if (ends_turn(token)) return;
    at_ = state_after(token);
    open_walk_ = {};
    here_.clear();
    if (matcher_.memory_bytes() > kept_bytes_) {
        at_ = matcher_.forget_all_but(*at_);
        allowed_.clear();
    }
    matcher_.grant_work(work_per_token, work_at_first);
}

std::size_t output_constraint::mask_bytes() const {
    return (static_cast<std::size_t>(tokenizer_.vocabulary()) + 63) / 64 * sizeof(std::uint64_t);
}

std::size_t output_constraint::memory_bytes() const {
    return matcher_.memory_bytes() + allowed_.size() * mask_bytes();
}

// Returns: the words (tokens) that may come next. Walks through the trie and the grammar together,
// so a node that the grammar rejects excludes its whole subtree. `looks_alike`: the words are no
// longer than the outlook, so a state's look-alike, whose transitions are often known, gives the
// same result.
output_constraint::token_set output_constraint::walk(const vocabulary_trie::part& words,
                                                     bool looks_alike) {
    auto seen = [&](grammar_matcher::state s) { return looks_alike ? matcher_.look_alike(s) : s; };
    if (open_walk_.words != &words)
        open_walk_ = {&words, 0, {seen(here())}, token_set(mask_bytes() / sizeof(std::uint64_t))};
    auto& [part, next, path, found] = open_walk_;
    while (next + 1 < words.nodes.size()) {
        if (walked_nodes_ % nodes_a_place == 0) matcher_.spend_slice(1);
        const vocabulary_trie::node& node = words.nodes[next];
        path.resize(node.depth);
        const grammar_matcher::state reached = matcher_.step(path.back(), node.byte);
        if (reached == grammar_matcher::dead) {
            next = node.end;
        } else {
            path.push_back(seen(reached));
            ++next;
            for (std::size_t t = node.first_token; t < words.nodes[next].first_token; ++t) {
                auto token = static_cast<std::size_t>(words.tokens[t]);
                found[token / 64] |= std::uint64_t{1} << token % 64;
            }
        }
        ++walked_nodes_;
    }
    token_set all = std::move(found);
    open_walk_ = {};
    return all;
}

// Removes stop tokens from a mask: some are also ordinary words of the vocabulary, as which the
// grammar may allow them.
void output_constraint::forbid_ends(token_set& words) const {
    for (token_id token : stop_tokens_)
        if (auto index = static_cast<std::size_t>(token); index / 64 < words.size())
            words[index / 64] &= ~(std::uint64_t{1} << index % 64);
}

bool output_constraint::knows_mask() { return allowed_.contains(matcher_.look_alike(here())); }

const output_constraint::token_set& output_constraint::allowed_here() {
    const grammar_matcher::state alike = matcher_.look_alike(here());
    auto known = allowed_.find(alike);
    // Short words are the same at all look-alikes, so their mask is cached; long ones need the
    // state.
    if (known == allowed_.end()) {
        token_set made = walk(trie_.short_words, true);
        forbid_ends(made);
        if ((allowed_.size() + 1) * mask_bytes() > remembered_bytes_max) allowed_.clear();
        known = allowed_.emplace(alike, std::move(made)).first;
    }
    if (trie_.long_words.tokens.empty()) return known->second;
    if (here_.empty()) {
        here_ = walk(trie_.long_words, false);
        for (std::size_t i = 0; i < here_.size(); ++i) here_[i] |= known->second[i];
        forbid_ends(here_);
    }
    return here_;
}

std::span<const float> output_constraint::masked(std::span<const float> logits) {
    constexpr float never = -std::numeric_limits<float>::infinity();
    masked_.assign(logits.size(), never);
    bool any = false;
    const token_set& allowed = allowed_here();
    // Rows of logits beyond the tokenizer's vocabulary are never allowed.
    const std::size_t count = std::min(logits.size(), allowed.size() * 64);
    for (std::size_t i = 0; i < count; ++i) {
        const bool may = (allowed[i / 64] >> i % 64 & 1) != 0;
        masked_[i] = may ? logits[i] : never;
        any = any || may;
    }
    auto allow = [&](token_id token) {
        auto index = static_cast<std::size_t>(token);
        if (index >= logits.size()) return;
        masked_[index] = logits[index];
        any = true;
    };
    for (token_id token : matcher_.tokens_at(here())) allow(token);
    if (matcher_.accepts(here()))
        for (token_id token : stop_tokens_) allow(token);
    return any ? std::span<const float>(masked_) : std::span<const float>();
}

}  // namespace semantic::engine

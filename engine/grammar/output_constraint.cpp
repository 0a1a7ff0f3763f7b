#include "engine/grammar/output_constraint.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace semantic::engine {

namespace {

// Of what is remembered for an answer; beyond it all is made anew.
constexpr std::size_t remembered_bytes_max = std::size_t{4} << 20;

}  // namespace

output_constraint::output_constraint(std::shared_ptr<const grammar_program> program,
                                     const tokenizer& words, const vocabulary_trie& trie,
                                     const std::vector<token_id>& stop_tokens)
    : tokenizer_(words),
      trie_(trie),
      stop_tokens_(stop_tokens),
      matcher_(std::move(program), {work_at_first, automaton_bytes_max}),
      at_(matcher_.start()) {}

output_constraint::output_constraint(std::shared_ptr<const grammar> rules, const tokenizer& words,
                                     const vocabulary_trie& trie,
                                     const std::vector<token_id>& stop_tokens)
    : output_constraint(std::make_shared<const grammar_program>(std::move(rules), outlook_bytes),
                        words, trie, stop_tokens) {}

bool output_constraint::ends_turn(token_id token) const {
    return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

grammar_matcher::state output_constraint::behind(token_id token) {
    if (tokenizer_.is_special(token)) return matcher_.step_token(at_, token);
    std::string_view bytes = tokenizer_.bytes(token);
    if (bytes.empty()) return grammar_matcher::dead;
    grammar_matcher::state state = at_;
    for (char c : bytes) state = matcher_.step(state, static_cast<unsigned char>(c));
    return state;
}

bool output_constraint::allows(token_id token) {
    if (ends_turn(token)) return matcher_.accepts(at_);
    return behind(token) != grammar_matcher::dead;
}

void output_constraint::take(token_id token) {
    if (ends_turn(token)) return;
    if (matcher_.memory_bytes() > kept_automaton_bytes_max) {
        at_ = matcher_.forget_all_but(at_);
        allowed_.clear();
    }
    at_ = behind(token);
    matcher_.grant_work(work_per_token, work_at_first);
}

std::size_t output_constraint::mask_bytes() const {
    return (static_cast<std::size_t>(tokenizer_.vocabulary()) + 63) / 64 * sizeof(std::uint64_t);
}

std::size_t output_constraint::memory_bytes() const {
    return matcher_.memory_bytes() + allowed_.size() * mask_bytes();
}

// Beside the grammar: a node that the grammar rejects takes its subtree along. `looks_alike`: the
// words are short, so that for what follows a state's look-alike will do, whose ways are known.
void output_constraint::walk(const vocabulary_trie::part& words, bool looks_alike, token_set& out) {
    auto seen = [&](grammar_matcher::state s) { return looks_alike ? matcher_.look_alike(s) : s; };
    std::vector<grammar_matcher::state> path{seen(at_)};  // [depth] behind that many bytes
    for (std::size_t i = 0; i + 1 < words.nodes.size(); ++walked_nodes_) {
        const vocabulary_trie::node& node = words.nodes[i];
        path.resize(node.depth);
        grammar_matcher::state next = matcher_.step(path.back(), node.byte);
        if (next == grammar_matcher::dead) {
            i = node.end;
            continue;
        }
        path.push_back(seen(next));
        ++i;
        for (std::size_t t = node.first_token; t < words.nodes[i].first_token; ++t) {
            auto token = static_cast<std::size_t>(words.tokens[t]);
            out[token / 64] |= std::uint64_t{1} << token % 64;
        }
    }
}

// Those of them that are words too.
void output_constraint::forbid_ends(token_set& words) const {
    for (token_id token : stop_tokens_)
        if (auto index = static_cast<std::size_t>(token); index / 64 < words.size())
            words[index / 64] &= ~(std::uint64_t{1} << index % 64);
}

bool output_constraint::knows_mask() { return allowed_.contains(matcher_.look_alike(at_)); }

const output_constraint::token_set& output_constraint::allowed_here() {
    if ((allowed_.size() + 1) * mask_bytes() > remembered_bytes_max) allowed_.clear();
    const grammar_matcher::state alike = matcher_.look_alike(at_);
    auto known = allowed_.find(alike);
    if (known == allowed_.end()) {
        // Remembered when it is whole: a walk may be given up.
        token_set made(mask_bytes() / sizeof(std::uint64_t), 0);
        walk(trie_.short_words, true, made);
        forbid_ends(made);
        known = allowed_.emplace(alike, std::move(made)).first;
    }
    if (trie_.long_words.tokens.empty()) return known->second;
    here_ = known->second;
    walk(trie_.long_words, false, here_);
    forbid_ends(here_);
    return here_;
}

std::span<const float> output_constraint::masked(std::span<const float> logits) {
    constexpr float never = -std::numeric_limits<float>::infinity();
    masked_.assign(logits.size(), never);
    bool any = false;
    const token_set& allowed = allowed_here();
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
    for (token_id token : matcher_.tokens_at(at_)) allow(token);
    if (matcher_.accepts(at_))
        for (token_id token : stop_tokens_) allow(token);
    return any ? std::span<const float>(masked_) : std::span<const float>();
}

}  // namespace semantic::engine

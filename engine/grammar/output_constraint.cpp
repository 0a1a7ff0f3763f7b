#include "engine/grammar/output_constraint.hpp"

#include <algorithm>
#include <limits>

namespace semantic::engine {

namespace {

// 4 MiB of remembered lists an answer; beyond it they are made anew.
constexpr std::size_t remembered_tokens_max = std::size_t{1} << 20;

}  // namespace

output_constraint::output_constraint(std::shared_ptr<const grammar> rules, const tokenizer& words,
                                     const vocabulary_trie& trie,
                                     const std::vector<token_id>& stop_tokens)
    : tokenizer_(words),
      trie_(trie),
      stop_tokens_(stop_tokens),
      matcher_(std::move(rules)),
      at_(matcher_.start()) {}

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
    if (!ends_turn(token)) at_ = behind(token);
}

// A walk of the trie beside the grammar: a node that the grammar rejects takes its subtree along.
const std::vector<token_id>& output_constraint::allowed_here() {
    if (auto known = allowed_.find(at_); known != allowed_.end()) return known->second;
    if (allowed_tokens_ > remembered_tokens_max) {
        allowed_.clear();
        allowed_tokens_ = 0;
    }
    std::vector<token_id> out = matcher_.tokens_at(at_);
    std::vector<grammar_matcher::state> path{at_};  // [depth] state behind that many bytes
    for (std::size_t i = 0; i + 1 < trie_.nodes.size();) {
        const vocabulary_trie::node& node = trie_.nodes[i];
        path.resize(node.depth);
        grammar_matcher::state next = matcher_.step(path.back(), node.byte);
        if (next == grammar_matcher::dead) {
            i = node.end;
            continue;
        }
        path.push_back(next);
        out.insert(out.end(), trie_.tokens.begin() + node.first_token,
                   trie_.tokens.begin() + trie_.nodes[i + 1].first_token);
        ++i;
    }
    if (matcher_.accepts(at_)) out.insert(out.end(), stop_tokens_.begin(), stop_tokens_.end());
    allowed_tokens_ += out.size();
    return allowed_.emplace(at_, std::move(out)).first->second;
}

std::span<const float> output_constraint::masked(std::span<const float> logits) {
    masked_.assign(logits.size(), -std::numeric_limits<float>::infinity());
    bool any = false;
    for (token_id token : allowed_here()) {
        auto index = static_cast<std::size_t>(token);
        if (index >= logits.size() || (ends_turn(token) && !matcher_.accepts(at_))) continue;
        masked_[index] = logits[index];
        any = true;
    }
    return any ? std::span<const float>(masked_) : std::span<const float>();
}

}  // namespace semantic::engine

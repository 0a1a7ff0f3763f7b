#include "engine/grammar/grammar_matcher.hpp"

#include <algorithm>
#include <map>

namespace semantic::engine {

namespace {

// Places looked at for one state, and for one answer: a second of work, and a bound on the memory
// that it takes.
constexpr int closure_max = 200'000;
constexpr std::int64_t work_max = 30'000'000;

constexpr std::uint32_t end_mark = static_cast<std::uint32_t>(-1);

// FNV-1a, 64 bit. Source: http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash_of(const std::vector<std::uint32_t>& stacks, bool accepts) {
    std::uint64_t hash = accepts ? 0xcbf29ce484222325u : 0x84222325cbf29ce4u;
    for (std::uint32_t stack : stacks) hash = (hash ^ stack) * 0x100000001b3u;
    return hash;
}

}  // namespace

grammar_matcher::grammar_matcher(std::shared_ptr<const grammar> rules, int outlook_bytes)
    : grammar_(std::move(rules)), outlook_bytes_(outlook_bytes), work_left_(work_max) {
    flatten();
    classify_bytes();
    nodes_.push_back({});    // the empty stack
    states_.emplace_back();  // dead
    begin_state();
    for (std::uint32_t position : starts_[grammar_->root]) close(position, 0);
    start_ = intern();
}

void grammar_matcher::flatten() {
    chain_labels known;
    for (std::size_t rule = 0; rule < grammar_->rules.size(); ++rule) {
        auto& starts = starts_.emplace_back();
        for (const grammar::sequence& alternative : grammar_->rules[rule]) {
            starts.push_back(static_cast<std::uint32_t>(program_.size()));
            program_.insert(program_.end(), alternative.begin(), alternative.end());
            program_.push_back({grammar::kind::rule, end_mark});
            add_labels(rule, alternative, known);
        }
    }
}

// The rules of a chain that have more to come than outlook_bytes are alike: each time takes a byte
// or more. The last symbol of an alternative that is not empty is the chain's next rule.
void grammar_matcher::add_labels(std::size_t rule, const grammar::sequence& alternative,
                                 chain_labels& known) {
    const std::size_t begin = labels_.size(), end = program_.size();
    labels_.resize(end);
    bytes_least_.resize(end);
    int to_the_end = 0;
    for (std::size_t i = alternative.size(); i-- > 0;) {
        const grammar::symbol& s = alternative[i];
        int bytes = s.what == grammar::kind::rule ? grammar_->bytes_least[s.index] : 1;
        to_the_end = std::min(grammar::bytes_far, to_the_end + bytes);
        bytes_least_[begin + i] = to_the_end;
    }
    for (std::size_t i = begin; i < end; ++i) labels_[i] = static_cast<char32_t>(i);
    const grammar::repetition& in = grammar_->repetitions[rule];
    if (in.chain == 0 || alternative.size() < 2 ||
        bytes_least_[begin] == bytes_least_[begin + alternative.size() - 1])
        return;
    const int far = outlook_bytes_ + 1;
    const int least = std::min(in.least_left, far);
    const int most = in.most_left < 0 ? far : std::min(in.most_left, far);
    for (std::size_t i = 0; i < alternative.size(); ++i)
        labels_[begin + i] =
            known
                .try_emplace({static_cast<int>(in.chain), static_cast<int>(i), least, most},
                             labels_[begin + i])
                .first->second;
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
    auto [known, is_new] = node_index_.add(position, below, static_cast<stack>(nodes_.size()));
    if (is_new) nodes_.push_back({position, below});
    return known;
}

// One that was given up leaves something behind.
void grammar_matcher::begin_state() {
    closed_.clear();
    pending_.clear();
    made_.stacks.clear();
    made_.accepts = false;
    closure_left_ = closure_max;
}

// Goes down into rules and up out of finished ones until each stack waits for a byte or a token.
void grammar_matcher::close(std::uint32_t position, stack below) {
    pending_.push_back({position, below});
    while (!pending_.empty()) {
        const node next = pending_.back();
        pending_.pop_back();
        if (--closure_left_ < 0 || --work_left_ < 0) throw grammar_too_large();
        close_one(next.position, next.below);
    }
}

void grammar_matcher::close_one(std::uint32_t position, stack below) {
    while (program_[position] == grammar::symbol{grammar::kind::rule, end_mark}) {
        if (below == 0) {
            made_.accepts = true;
            return;
        }
        position = nodes_[below].position;
        below = nodes_[below].below;
    }
    const grammar::symbol& waits_for = program_[position];
    if (waits_for.what != grammar::kind::rule) {
        made_.stacks.push_back(push(position, below));
        return;
    }
    // Reached a second time, by another way or from itself, it adds nothing.
    if (!closed_.add(position, below, 0).second) return;
    // What is finished with its last symbol leaves no level behind, so lists do not pile up.
    bool last = program_[position + 1] == grammar::symbol{grammar::kind::rule, end_mark};
    stack under = last ? below : push(position + 1, below);
    for (std::uint32_t start : starts_[waits_for.index]) pending_.push_back({start, under});
}

grammar_matcher::state grammar_matcher::intern() {
    std::vector<stack>& stacks = made_.stacks;
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
    state found = dead;
    if (!stacks.empty() || made_.accepts) {
        const std::uint64_t hash = hash_of(stacks, made_.accepts);
        auto made = static_cast<state>(states_.size());
        auto [known, is_new] = state_index_.add(static_cast<std::uint32_t>(hash >> 32),
                                                static_cast<std::uint32_t>(hash), made);
        // Two that share a hash are two states; the later one is found no more, and made again.
        bool same =
            !is_new && states_[known].stacks == stacks && states_[known].accepts == made_.accepts;
        if (!same) states_.push_back(made_);
        found = same ? known : made;
    }
    stacks.clear();
    made_.accepts = false;
    return found;
}

template <class Takes>
grammar_matcher::state grammar_matcher::move(state from, Takes takes) {
    begin_state();
    for (std::size_t i = 0; i < states_[from].stacks.size(); ++i) {
        node top = nodes_[states_[from].stacks[i]];
        if (takes(program_[top.position])) close(top.position + 1, top.below);
    }
    return intern();
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

grammar_matcher::state grammar_matcher::look_alike(state at) {
    if (look_alikes_.size() <= at) look_alikes_.resize(states_.size(), unknown);
    if (look_alikes_[at] == unknown)
        look_alikes_[at] = by_outlook_.try_emplace(outlook(at), at).first->second;
    return look_alikes_[at];
}

// What waits at the top of each stack and what comes below it, as far as that many bytes reach.
std::u32string grammar_matcher::outlook(state at) const {
    constexpr char32_t bottom = end_mark, too_far = end_mark - 1;
    std::vector<std::u32string> each;
    for (stack top : states_[at].stacks) {
        std::u32string& levels = each.emplace_back();
        int bytes = 0;
        for (; top != 0 && bytes < outlook_bytes_; top = nodes_[top].below) {
            levels += labels_[nodes_[top].position];
            bytes = std::min(grammar::bytes_far, bytes + bytes_least_[nodes_[top].position]);
        }
        levels += top == 0 ? bottom : too_far;
    }
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
    std::u32string all;
    for (const std::u32string& levels : each) all += levels;
    return all;
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

#include "engine/grammar/grammar.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

namespace semantic::engine {

namespace {

constexpr int one_by_one_max = 10'000;

// What each rule takes at least. Knuth's generalisation of Dijkstra's algorithm: whichever rule is
// complete with the fewest bytes, of those that are made of complete ones alone, is complete next.
// Each symbol is looked at once, so nobody's grammar takes long because of how its rules lie.
// Source: D. E. Knuth, A Generalization of Dijkstra's Algorithm, Inf. Proc. Letters 6 (1977).
class least_bytes_finder {
  public:
    static constexpr int never = -1;  // it can never be completed

    explicit least_bytes_finder(const grammar& of)
        : grammar_(of), least_(of.rules.size(), never), waiting_(of.rules.size()) {
        for (std::size_t rule = 0; rule < of.rules.size(); ++rule)
            for (const grammar::sequence& each : of.rules[rule]) add(rule, each);
    }

    std::vector<int> find() && {
        while (!next_.empty()) {
            const auto [bytes, rule] = next_.top();
            next_.pop();
            if (least_[rule] != never) continue;
            least_[rule] = bytes;
            for (const std::size_t which : waiting_[rule]) take(which, bytes);
        }
        return std::move(least_);
    }

  private:
    struct alternative {
        std::size_t rule;
        std::size_t parts_left = 0;  // rules in it that are not complete
        int bytes = 0;               // of the parts that are
    };
    using candidate = std::pair<int, std::size_t>;  // bytes, rule

    void add(std::size_t rule, const grammar::sequence& symbols) {
        alternative one{rule};
        for (const grammar::symbol& s : symbols) {
            if (s.what == grammar::kind::bytes && grammar_.byte_sets[s.index].none()) return;
            const bool is_rule = s.what == grammar::kind::rule;
            one.parts_left += is_rule ? 1 : 0;
            one.bytes = std::min(grammar::bytes_far, one.bytes + (is_rule ? 0 : 1));
        }
        for (const grammar::symbol& s : symbols)
            if (s.what == grammar::kind::rule) waiting_[s.index].push_back(all_.size());
        all_.push_back(one);
        if (one.parts_left == 0) next_.emplace(one.bytes, rule);
    }

    void take(std::size_t which, int bytes) {
        alternative& one = all_[which];
        one.bytes = std::min(grammar::bytes_far, one.bytes + bytes);
        if (--one.parts_left == 0) next_.emplace(one.bytes, one.rule);
    }

    const grammar& grammar_;
    std::vector<int> least_;
    std::vector<alternative> all_;
    std::vector<std::vector<std::size_t>> waiting_;  // [rule] alternatives with it, once a mention
    std::priority_queue<candidate, std::vector<candidate>, std::greater<>> next_;
};

}  // namespace

grammar_builder::symbol grammar_builder::bytes(const byte_set& set) {
    auto found = std::find(made_.byte_sets.begin(), made_.byte_sets.end(), set);
    auto index = static_cast<std::uint32_t>(found - made_.byte_sets.begin());
    if (found == made_.byte_sets.end()) made_.byte_sets.push_back(set);
    return {grammar::kind::bytes, index};
}

grammar_builder::symbol grammar_builder::token(token_id id) const {
    return {grammar::kind::token, static_cast<std::uint32_t>(id)};
}

grammar_builder::sequence grammar_builder::literal(std::string_view text) {
    if (text.size() > symbols_max) throw grammar_too_large();
    sequence out;
    for (char c : text) {
        byte_set one;
        one.set(static_cast<unsigned char>(c));
        out.push_back(bytes(one));
    }
    return out;
}

grammar_builder::symbol grammar_builder::new_rule() {
    if (++symbols_ > symbols_max) throw grammar_too_large();
    made_.rules.emplace_back();
    made_.repetitions.emplace_back();
    return {grammar::kind::rule, static_cast<std::uint32_t>(made_.rules.size() - 1)};
}

void grammar_builder::add(symbol rule, sequence alternative) {
    symbols_ += alternative.size() + 1;
    if (symbols_ > symbols_max) throw grammar_too_large();
    made_.rules[rule.index].push_back(std::move(alternative));
}

grammar_builder::symbol grammar_builder::any_of(std::vector<sequence> alternatives) {
    symbol rule = new_rule();
    for (sequence& alternative : alternatives) add(rule, std::move(alternative));
    return rule;
}

grammar_builder::symbol grammar_builder::repeat(const sequence& unit, int least, int most) {
    if (std::max(least, most) > one_by_one_max) return repeat_in_blocks(unit, least, most);
    symbol rest;
    std::uint32_t chain = ++chains_;
    int count = std::max(least, most);
    if (most < 0) {
        rest = new_rule();
        made_.repetitions[rest.index] = {chain, 0, -1};
        add(rest, {});
        add(rest, unit + rest);  // right recursion: a matcher's stack does not grow with it
        count = least;
    } else {
        rest = any_of({{}});
    }
    for (int done = count - 1; done >= 0; --done) {
        symbol here = new_rule();
        made_.repetitions[here.index] = {chain, std::max(0, least - done),
                                         most < 0 ? -1 : most - done};
        if (done >= least) add(here, {});
        add(here, unit + rest);
        rest = here;
    }
    return rest;
}

// Whole blocks, and behind them fewer units than a block has: each count is written in one way,
// with rules as many as its square root.
grammar_builder::symbol grammar_builder::repeat_in_blocks(const sequence& unit, int least,
                                                          int most) {
    const int block = static_cast<int>(std::sqrt(std::max(least, most)));
    const symbol whole = repeat(unit, block, block);
    sequence all(static_cast<std::size_t>(least / block), whole);
    all.push_back(repeat(unit, least % block, least % block));
    if (most < 0) return any_of({all + repeat(unit, 0, -1)});
    const int more = most - least;
    const symbol part = repeat(unit, 0, block - 1);
    symbol rest = repeat(unit, 0, more % block);
    for (int i = more / block; i > 0; --i) rest = any_of({{whole, rest}, {part}});
    return any_of({all + rest});
}

grammar grammar_builder::build(symbol root) && {
    made_.root = root.index;
    made_.bytes_least = least_bytes_finder(made_).find();
    auto hopeless = [&](const sequence& alternative) {
        return std::any_of(alternative.begin(), alternative.end(), [&](const symbol& s) {
            return (s.what == grammar::kind::rule &&
                    made_.bytes_least[s.index] == least_bytes_finder::never) ||
                   (s.what == grammar::kind::bytes && made_.byte_sets[s.index].none());
        });
    };
    for (auto& alternatives : made_.rules) std::erase_if(alternatives, hopeless);
    std::ranges::replace(made_.bytes_least, least_bytes_finder::never, grammar::bytes_far);
    return std::move(made_);
}

}  // namespace semantic::engine

#include "engine/grammar/grammar.hpp"

#include <algorithm>
#include <cmath>

namespace semantic::engine {

namespace {

constexpr int one_by_one_max = 10'000;

int bytes_least_of(const grammar& g, const grammar::symbol& s) {
    return s.what == grammar::kind::rule ? g.bytes_least[s.index] : 1;
}

// By rounds until nothing changes; a round that changes nothing is the last. A number only falls,
// and what it falls to is made of others that fell before, so there are at most as many rounds as
// rules.
void find_least_bytes(grammar& g) {
    g.bytes_least.assign(g.rules.size(), grammar::bytes_far);
    bool changed = true;
    auto look_at = [&](std::size_t rule) {
        for (const grammar::sequence& alternative : g.rules[rule]) {
            int bytes = 0;
            for (const grammar::symbol& s : alternative)
                bytes = std::min(grammar::bytes_far, bytes + bytes_least_of(g, s));
            changed = changed || bytes < g.bytes_least[rule];
            g.bytes_least[rule] = std::min(g.bytes_least[rule], bytes);
        }
    };
    while (changed) {
        changed = false;
        for (std::size_t i = g.rules.size(); i-- > 0;) look_at(i);
        for (std::size_t i = 0; i < g.rules.size(); ++i) look_at(i);
    }
}

// By rounds until nothing changes; a round that changes nothing is the last, and there are at most
// as many as rules.
std::vector<bool> productive_rules(const grammar& g) {
    std::vector<bool> productive(g.rules.size(), false);
    auto completes = [&](const grammar::sequence& alternative) {
        return std::all_of(alternative.begin(), alternative.end(), [&](const auto& s) {
            if (s.what == grammar::kind::bytes) return g.byte_sets[s.index].any();
            return s.what == grammar::kind::token || productive[s.index];
        });
    };
    for (bool changed = true; changed;) {
        changed = false;
        // Backwards: rules are mostly made after those that they refer to are asked for.
        for (std::size_t i = g.rules.size(); i-- > 0;) {
            if (productive[i]) continue;
            productive[i] = std::any_of(g.rules[i].begin(), g.rules[i].end(), completes);
            changed = changed || productive[i];
        }
        for (std::size_t i = 0; i < g.rules.size(); ++i) {
            if (productive[i]) continue;
            productive[i] = std::any_of(g.rules[i].begin(), g.rules[i].end(), completes);
            changed = changed || productive[i];
        }
    }
    return productive;
}

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
    std::vector<bool> productive = productive_rules(made_);
    auto hopeless = [&](const sequence& alternative) {
        return std::any_of(alternative.begin(), alternative.end(), [&](const symbol& s) {
            return (s.what == grammar::kind::rule && !productive[s.index]) ||
                   (s.what == grammar::kind::bytes && made_.byte_sets[s.index].none());
        });
    };
    for (auto& alternatives : made_.rules) std::erase_if(alternatives, hopeless);
    find_least_bytes(made_);
    return std::move(made_);
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/grammar.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

namespace semantic::engine {

namespace {

constexpr int one_by_one_max = 10'000;  // longer repetitions are written in blocks
// Memory of a rule, of an alternative and of a set of bytes, without symbols, including the heap's
// overhead.
constexpr std::size_t rule_bytes =
    sizeof(std::vector<grammar::sequence>) + sizeof(grammar::repetition) + sizeof(int) + 32;
constexpr std::size_t alternative_bytes = sizeof(grammar::sequence) + 16;
constexpr std::size_t set_bytes = 2 * sizeof(byte_set) + 32;

// Finds the fewest bytes that each rule matches, by Knuth's generalisation of Dijkstra's algorithm:
// of the alternatives whose rules are all complete, the one with the fewest bytes completes its
// rule next. Each symbol is looked at once, so the time does not depend on the order of rules.
// Source: D. E. Knuth, A Generalization of Dijkstra's Algorithm, Inf. Proc. Letters 6 (1977).
class least_bytes_finder {
  public:
    static constexpr int never = -1;  // it can never be completed

    /// Notes for each rule the alternatives that refer to it, which wait for its least number of
    /// bytes: those of rule r are waiting_[first_[r]] to waiting_[first_[r + 1]], not included.
    explicit least_bytes_finder(const grammar& rules)
        : grammar_(rules), least_(rules.rules.size(), never), first_(rules.rules.size() + 1, 0) {
        for_each_alternative([&](std::size_t, const grammar::sequence& symbols) {
            for (const grammar::symbol& s : symbols)
                if (s.type == grammar::kind::rule) ++first_[s.index + 1];
        });
        for (std::size_t rule = 0; rule < rules.rules.size(); ++rule)
            first_[rule + 1] += first_[rule];
        waiting_.resize(first_.back());
        std::vector<std::uint32_t> filled(first_.begin(), first_.end() - 1);
        for_each_alternative([&](std::size_t rule, const grammar::sequence& symbols) {
            for (const grammar::symbol& s : symbols)
                if (s.type == grammar::kind::rule)
                    waiting_[filled[s.index]++] = static_cast<std::uint32_t>(all_.size());
            add(rule, symbols);
        });
    }

    std::vector<int> find() && {
        while (!next_.empty()) {
            const auto [bytes, rule] = next_.top();
            next_.pop();
            if (least_[rule] != never) continue;
            least_[rule] = bytes;
            for (std::uint32_t i = first_[rule]; i < first_[rule + 1]; ++i)
                take(waiting_[i], bytes);
        }
        return std::move(least_);
    }

  private:
    struct alternative {
        std::uint32_t rule;
        std::uint32_t parts_left = 0;  // rules in it that are not complete
        int bytes = 0;                 // of the parts that are
    };
    using candidate = std::pair<int, std::uint32_t>;  // bytes, rule

    /// Alternatives without an empty set of bytes; others can never be completed.
    template <class Visit>
    void for_each_alternative(Visit visit) const {
        for (std::size_t rule = 0; rule < grammar_.rules.size(); ++rule)
            for (const grammar::sequence& symbols : grammar_.rules[rule])
                if (std::ranges::none_of(symbols, [&](const grammar::symbol& s) {
                        return s.type == grammar::kind::bytes && grammar_.byte_sets[s.index].none();
                    }))
                    visit(rule, symbols);
    }

    void add(std::size_t rule, const grammar::sequence& symbols) {
        alternative one{static_cast<std::uint32_t>(rule)};
        for (const grammar::symbol& s : symbols) {
            const bool is_rule = s.type == grammar::kind::rule;
            one.parts_left += is_rule ? 1 : 0;
            one.bytes = std::min(grammar::bytes_far, one.bytes + (is_rule ? 0 : 1));
        }
        all_.push_back(one);
        if (one.parts_left == 0) next_.emplace(one.bytes, one.rule);
    }

    void take(std::uint32_t index, int bytes) {
        alternative& one = all_[index];
        one.bytes = std::min(grammar::bytes_far, one.bytes + bytes);
        if (--one.parts_left == 0) next_.emplace(one.bytes, one.rule);
    }

    const grammar& grammar_;
    std::vector<int> least_;
    std::vector<alternative> all_;
    std::vector<std::uint32_t> first_;    // [rule] into waiting_; one more after the last
    std::vector<std::uint32_t> waiting_;  // alternatives with the rule, once a mention
    std::priority_queue<candidate, std::vector<candidate>, std::greater<>> next_;
};

}  // namespace

void grammar_builder::charge(std::size_t symbols, std::size_t memory_bytes) {
    symbols_ += symbols;
    if (symbols_ > symbols_max) throw grammar_too_large();
    budget_.charge_steps(symbols);
    budget_.charge_bytes(memory_bytes);
    charged_bytes_ += memory_bytes;
}

grammar_builder::symbol grammar_builder::bytes(const byte_set& set) {
    const auto [known, is_new] =
        set_index_.try_emplace(set, static_cast<std::uint32_t>(made_.byte_sets.size()));
    if (is_new) {
        made_.byte_sets.push_back(set);
        charge(0, set_bytes);
    }
    return {grammar::kind::bytes, known->second};
}

grammar_builder::symbol grammar_builder::single_byte(unsigned char byte) {
    std::uint32_t& known = single_bytes_[byte];
    if (known == no_set) {
        byte_set one;
        one.set(byte);
        known = bytes(one).index;
    }
    return {grammar::kind::bytes, known};
}

grammar_builder::symbol grammar_builder::token(token_id id) const {
    return {grammar::kind::token, static_cast<std::uint32_t>(id)};
}

grammar_builder::sequence grammar_builder::literal(std::string_view text) {
    if (text.size() > symbols_max - symbols_) throw grammar_too_large();
    budget_.charge_steps(text.size() / 16 + 1);
    sequence out;
    out.reserve(text.size());
    for (char c : text) out.push_back(single_byte(static_cast<unsigned char>(c)));
    return out;
}

grammar_builder::symbol grammar_builder::new_rule() {
    charge(1, rule_bytes);
    made_.rules.emplace_back();
    made_.repetitions.emplace_back();
    return {grammar::kind::rule, static_cast<std::uint32_t>(made_.rules.size() - 1)};
}

void grammar_builder::add(symbol rule, sequence alternative) {
    charge(alternative.size() + 1, alternative_bytes + alternative.size() * sizeof(symbol));
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
    // From the last unit to the first: `here` is the rule of what may come after `done` units.
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

// Repetitions of many units: whole blocks of sqrt(count) units, and after them fewer units than a
// block. Each count has one way to be written, and the rules are as many as the square root of it.
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
    made_.memory_bytes = charged_bytes_;
    budget_.charge_steps(2 * symbols_);
    // About so many bytes of its indexes for each symbol.
    const storage::charged_bytes of_the_finder(budget_, 24 * symbols_);
    made_.bytes_least = least_bytes_finder(made_).find();
    auto hopeless = [&](const sequence& alternative) {
        return std::any_of(alternative.begin(), alternative.end(), [&](const symbol& s) {
            return (s.type == grammar::kind::rule &&
                    made_.bytes_least[s.index] == least_bytes_finder::never) ||
                   (s.type == grammar::kind::bytes && made_.byte_sets[s.index].none());
        });
    };
    for (auto& alternatives : made_.rules) std::erase_if(alternatives, hopeless);
    std::ranges::replace(made_.bytes_least, least_bytes_finder::never, grammar::bytes_far);
    return std::move(made_);
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
// Strings that match several regular expressions and a length at once. Each expression becomes an
// automaton (Thompson's construction, made deterministic as far as needed), and the grammar has a
// rule for each combination of their states.

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>

#include "engine/grammar/string_pattern.hpp"
#include "engine/grammar/values/growing_charge.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using kind = pattern_node::kind;

// Each state is a rule of the grammar.
constexpr std::size_t states_max = 20'000;
// The most places that readers look at, and transitions between states: some 50 ms each.
constexpr std::size_t work_max = 4'000'000;
constexpr std::size_t ways_max = 400'000;
// Memory of a place, and of a state with its index entry, without their contents.
constexpr std::size_t place_bytes = 160;
constexpr std::size_t place_set_bytes = 192;

[[noreturn]] void too_large() {
    throw unsupported_schema(
        "the patterns, formats and lengths of this string are too many to be held together");
}

char_set any_character() { return {std::bitset<128>().set(), true}; }

// Divides the characters into classes that all expressions treat alike.
class alphabet {
  public:
    void add(const char_set& set) {
        if (known_.insert(set).second) sets_.push_back(set);
    }
    /// Call once, after the last add().
    void divide() {
        std::array<std::size_t, others + 1> class_of{};
        std::size_t count = 1;
        for (const char_set& set : sets_) {
            std::map<std::pair<std::size_t, bool>, std::size_t> divided;
            for (std::size_t c = 0; c <= others && count <= others; ++c)
                class_of[c] =
                    divided.try_emplace({class_of[c], has(set, c)}, divided.size()).first->second;
            if (!divided.empty()) count = divided.size();
        }
        classes_.resize(count);
        for (std::size_t c = 0; c < others; ++c) classes_[class_of[c]].ascii.set(c);
        classes_[class_of[others]].others = true;
    }
    std::size_t size() const { return classes_.size(); }
    const char_set& at(std::size_t index) const { return classes_[index]; }

    /// Requires: `one` is a class, `set` was added.
    static bool includes(const char_set& set, const char_set& one) {
        return one.others ? set.others : (set.ascii & one.ascii).any();
    }

  private:
    static constexpr std::size_t others = 128;
    static bool has(const char_set& set, std::size_t c) {
        return c == others ? set.others : set.ascii.test(c);
    }
    std::vector<char_set> sets_, classes_;
    std::unordered_set<char_set, char_set_hash> known_;
};

// The automaton of one expression, or of a condition that the string must not meet. A state is a
// set of places of the non-deterministic automaton.
class reader {
  public:
    /// Requires: no node is text. `memory` must outlive this.
    reader(const parsed_pattern& pattern, bool negated, growing_charge& memory)
        : memory_(memory), negated_(negated) {
        std::vector<int> ends;
        for (const pattern_alternative& one : pattern) {
            int at = place();
            places_[0].free.push_back(at);
            if (!one.from_start) at = anything(at);
            at = built(one.body, at);
            ends.push_back(one.to_end ? at : anything(at));
            if (!one.to_end) traps_.push_back(ends.back());
        }
        end_ = place();
        for (int each : ends) places_[static_cast<std::size_t>(each)].free.push_back(end_);
    }

    void add_sets(alphabet& to) const {
        for (const place_of& each : places_)
            if (each.to >= 0) to.add(each.set);
    }

    int start() { return interned(closed({0})); }
    int step(int state, std::size_t character, const alphabet& letters) {
        // A step is computed once for each class of characters.
        auto& steps = steps_[static_cast<std::size_t>(state)];
        if (steps.empty()) {
            memory_.add(letters.size() * sizeof(int));
            steps.assign(letters.size(), -1);
        }
        if (steps[character] >= 0) return steps[character];
        const char_set& one = letters.at(character);
        std::vector<int> next;
        memory_.budget().charge_steps(states_[static_cast<std::size_t>(state)].size() / 16 + 1);
        for (int at : states_[static_cast<std::size_t>(state)]) {
            const place_of& from = places_[static_cast<std::size_t>(at)];
            if (from.to >= 0 && alphabet::includes(from.set, one)) next.push_back(from.to);
        }
        const int to = interned(closed(std::move(next)));
        return steps_[static_cast<std::size_t>(state)][character] = to;
    }
    bool accepts(int state) const { return has(state, end_) != negated_; }
    /// Whether no continuation of the string can match.
    bool is_dead(int state) const {
        if (!negated_) return states_[static_cast<std::size_t>(state)].empty();
        return std::any_of(traps_.begin(), traps_.end(), [&](int t) { return has(state, t); });
    }

  private:
    struct place_of {
        char_set set{};
        int to = -1;            // the place after a character of the set; < 0: none
        std::vector<int> free;  // without a character
    };

    int place() {
        if (places_.size() >= states_max) too_large();
        memory_.budget().charge_steps();
        memory_.add(place_bytes);
        places_.emplace_back();
        return static_cast<int>(places_.size() - 1);
    }
    int add_place(int from, const char_set& set) {
        int to = place();
        places_[static_cast<std::size_t>(from)].set = set;
        places_[static_cast<std::size_t>(from)].to = to;
        return to;
    }
    void freely(int from, int to) { places_[static_cast<std::size_t>(from)].free.push_back(to); }
    /// Returns: a new place that any number of any characters leads to, from the place `from`.
    int anything(int from) {
        int loop = place();
        freely(from, loop);
        freely(add_place(loop, any_character()), loop);
        int to = place();
        freely(loop, to);
        return to;
    }

    /// Adds places for a part of the pattern that begins at place `from`. Returns: the place at its
    /// end. Throws: unsupported_schema.
    int built(const pattern_node& node, int from) {
        switch (node.type) {
            case kind::set: {
                if (negated_ && node.set.means_more)
                    throw unsupported_schema("'(?!' with a class beyond ASCII is not supported");
                int at = place();
                freely(from, at);
                return add_place(at, node.set);
            }
            case kind::text:
                throw unsupported_schema("'" + node.text +
                                         "' beside another pattern, a format or a length is not "
                                         "supported");
            case kind::choice: {
                int to = place();
                std::vector<int> ends;
                for (const pattern_node& part : node.parts) {
                    int at = place();
                    freely(from, at);
                    ends.push_back(built(part, at));
                }
                for (int each : ends) freely(each, to);
                return to;
            }
            case kind::repeat:
                return repeated(node, from);
            case kind::sequence:
                break;
        }
        for (const pattern_node& part : node.parts) from = built(part, from);
        return from;
    }

    /// Adds places for a repetition that begins at `from`: the required times one after the other,
    /// then optional ones or a loop. Returns: the place at its end.
    int repeated(const pattern_node& node, int from) {
        for (int i = 0; i < node.least; ++i) from = built(node.parts[0], from);
        if (node.most < 0) {
            int loop = place(), to = place();
            freely(from, loop);
            freely(loop, to);
            freely(built(node.parts[0], loop), loop);
            return to;
        }
        int to = place();
        for (int i = node.least; i < node.most; ++i) {
            freely(from, to);
            from = built(node.parts[0], from);
        }
        freely(from, to);
        return to;
    }

    // The places, and all that can be reached from them without a character, sorted.
    std::vector<int> closed(std::vector<int> set) {
        std::vector<bool> seen(places_.size());
        std::vector<int> all;
        while (!set.empty()) {
            const auto at = static_cast<std::size_t>(set.back());
            set.pop_back();
            if (seen[at]) continue;
            seen[at] = true;
            all.push_back(static_cast<int>(at));
            set.insert(set.end(), places_[at].free.begin(), places_[at].free.end());
        }
        work_ += all.size() + places_.size() / 64 + 1;
        memory_.budget().charge_steps(all.size() / 8 + places_.size() / 512 + 1);
        if (work_ > work_max) too_large();
        std::sort(all.begin(), all.end());
        return all;
    }
    int interned(std::vector<int> set) {
        auto [known, is_new] = numbers_.try_emplace(set, static_cast<int>(states_.size()));
        if (is_new) {
            memory_.add(2 * set.size() * sizeof(int) + place_set_bytes);
            states_.push_back(std::move(set));
            steps_.emplace_back();
        }
        return known->second;
    }
    bool has(int state, int at) const {
        const auto& set = states_[static_cast<std::size_t>(state)];
        return std::binary_search(set.begin(), set.end(), at);
    }

    growing_charge& memory_;
    const bool negated_;
    std::vector<place_of> places_{1};  // the first one is the start
    int end_ = 0;
    std::vector<int> traps_;                        // places from which every continuation matches
    std::vector<std::vector<int>> states_, steps_;  // [state]; of a step: [character], < 0: unknown
    std::map<std::vector<int>, int> numbers_;       // of states, by their places
    std::size_t work_ = 0;                          // see work_max
};

// The readers of all expressions, and the number of characters read: the product automaton.
class string_automaton {
  public:
    string_automaton(json_grammar& out, const std::vector<parsed_pattern>& patterns, int least,
                     int most)
        : builder_(out.builder()),
          memory_(builder_.budget()),
          characters_(out),
          least_(least),
          most_(most) {
        for (const parsed_pattern& pattern : patterns) add(pattern);
        for (const reader& each : readers_) each.add_sets(alphabet_);
        alphabet_.divide();
    }

    /// Makes the rules of all strings that every reader accepts, each in quotes. Each combination
    /// of states that can be reached becomes a rule.
    symbol whole() {
        std::vector<int> start;
        for (reader& each : readers_) start.push_back(each.start());
        start.push_back(0);
        const symbol first = rule_of(start);
        while (!waiting_.empty()) {
            const auto [next, rule] = waiting_.back();
            waiting_.pop_back();
            write(next, rule);
        }
        return builder_.any_of({builder_.literal("\"") + first});
    }

  private:
    using state = std::vector<int>;  // each reader's state, then the number of characters

    void add(const parsed_pattern& pattern) {
        readers_.emplace_back(pattern, false, memory_);
        for (const pattern_alternative& one : pattern) {
            if (one.conditions.empty()) continue;
            if (pattern.size() > 1)
                throw unsupported_schema("'(?=' or '(?!' beside '|' is not supported");
            for (const pattern_condition& each : one.conditions)
                readers_.emplace_back(parsed_pattern{{true, each.to_end, {}, each.body}},
                                      each.negated, memory_);
        }
    }

    symbol rule_of(const state& key) {
        auto known = rules_.find(key);
        if (known != rules_.end()) return known->second;
        if (rules_.size() >= states_max) too_large();
        memory_.add(2 * key.size() * sizeof(int) + place_set_bytes);
        const symbol rule = builder_.new_rule();
        rules_.emplace(key, rule);
        waiting_.emplace_back(key, rule);
        return rule;
    }

    /// Fills the rule of a combination of states: the end, if all readers accept, and each
    /// character that none of them refuses, followed by the rule of the next combination.
    void write(const state& key, symbol rule) {
        const int count = key.back();
        bool ends = count >= least_;
        for (std::size_t i = 0; i < readers_.size(); ++i)
            ends = ends && readers_[i].accepts(key[i]);
        if (ends) builder_.add(rule, builder_.literal("\""));
        if (most_ >= 0 && count == most_) return;
        std::map<state, char_set> ways;
        const std::size_t count_of_ways = alphabet_.size() * readers_.size();
        builder_.budget().charge_steps(count_of_ways / 4 + 1);
        if ((ways_ += count_of_ways) > ways_max) too_large();
        for (std::size_t c = 0; c < alphabet_.size(); ++c) {
            const char_set& one = alphabet_.at(c);
            state next;
            bool is_dead = false;
            for (std::size_t i = 0; i < readers_.size() && !is_dead; ++i) {
                next.push_back(readers_[i].step(key[i], c, alphabet_));
                is_dead = readers_[i].is_dead(next.back());
            }
            if (is_dead) continue;
            // Without a most, all counts from the least on are one.
            next.push_back(most_ >= 0 ? count + 1 : std::min(count + 1, least_));
            char_set& way = ways[next];
            way.ascii |= one.ascii;
            way.others = way.others || one.others;
        }
        for (const auto& [next, set] : ways)
            builder_.add(rule, {characters_.one_of(set), rule_of(next)});
    }

    grammar_builder& builder_;
    growing_charge memory_;
    character_writer characters_;
    const int least_, most_;
    std::vector<reader> readers_;
    alphabet alphabet_;
    std::map<state, symbol> rules_;
    std::vector<std::pair<state, symbol>> waiting_;  // rules that write() has still to fill
    std::size_t ways_ = 0;                           // see ways_max
};

}  // namespace

symbol strings_matching_all(json_grammar& out, const std::vector<parsed_pattern>& patterns,
                            int least, int most) {
    return string_automaton(out, patterns, least, most).whole();
}

}  // namespace semantic::engine

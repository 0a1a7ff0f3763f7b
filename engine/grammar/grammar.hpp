// SPDX-License-Identifier: Apache-2.0
#pragma once
// A context-free grammar over bytes and special tokens, which describes the answers that a request
// allows. Built once, then immutable and safe to share between threads. Code that builds one
// charges a work budget.

#include <array>
#include <bitset>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "storage/types/ids.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::engine {

using storage::token_id;

using byte_set = std::bitset<256>;

struct grammar {
    enum class kind : std::uint8_t { bytes, token, rule };
    struct symbol {
        kind type = kind::bytes;
        std::uint32_t index = 0;  // into byte_sets, a token id, or into rules
        bool operator==(const symbol&) const = default;
    };
    using sequence = std::vector<symbol>;  // one after another; empty: nothing at all

    /// A repetition is written as a chain of rules, one for each time. This marks a rule as part of
    /// a chain, and says how many times are left from it on. The rules of a chain are otherwise
    /// alike.
    struct repetition {
        std::uint32_t chain = 0;  // number of the chain; 0: none
        int least_left = 0;
        int most_left = 0;  // < 0: unlimited
    };

    std::vector<byte_set> byte_sets;
    std::vector<std::vector<sequence>> rules;  // alternatives of each rule; none: nothing matches
    std::vector<repetition> repetitions;       // [rule]
    /// The fewest bytes that each rule matches, at most bytes_far; a special token counts as one.
    static constexpr int bytes_far = 1 << 20;
    std::vector<int> bytes_least;  // [rule]
    std::uint32_t root = 0;
    std::size_t memory_bytes = 0;  // of the whole grammar, about
};

/// Thrown if a grammar would become larger than symbols_max, or a matcher exceeds its limits.
class grammar_too_large : public std::runtime_error {
  public:
    grammar_too_large() : std::runtime_error("it describes more than an answer can be held to") {}
};

/// Thrown if no token of the model's vocabulary spells what the grammar requires next.
class unwritable_form : public std::runtime_error {
  public:
    unwritable_form()
        : std::runtime_error("the model's vocabulary cannot write what must come next") {}
};

class grammar_builder {
  public:
    using symbol = grammar::symbol;
    using sequence = grammar::sequence;

    /// The most symbols of all alternatives together: far more than people write.
    static constexpr std::size_t symbols_max = 400'000;

    /// With a budget of its own that has the default limits.
    grammar_builder() : budget_(own_budget_) { single_bytes_.fill(no_set); }
    /// `budget` must outlive this. With it, methods that add to the grammar also throw
    /// work_limit_exceeded.
    explicit grammar_builder(storage::work_budget& budget) : budget_(budget) {
        single_bytes_.fill(no_set);
    }
    ~grammar_builder() { budget_.release_bytes(charged_bytes_); }
    grammar_builder(const grammar_builder&) = delete;
    grammar_builder& operator=(const grammar_builder&) = delete;

    storage::work_budget& budget() { return budget_; }

    /// One byte of the set.
    symbol bytes(const byte_set& set);
    /// A special token.
    symbol token(token_id id) const;
    /// The bytes of a text.
    sequence literal(std::string_view text);
    /// An empty rule, to be filled by add(): a rule that refers to itself needs this.
    symbol new_rule();
    /// Adds an alternative to a rule. Throws grammar_too_large.
    void add(symbol rule, sequence alternative);
    /// A new rule with these alternatives.
    symbol any_of(std::vector<sequence> alternatives);
    /// `unit` repeated `least` to `most` times; `most` < 0: unlimited. Throws grammar_too_large.
    symbol repeat(const sequence& unit, int least, int most);

    /// Returns: the finished grammar, without alternatives that can never be completed, so that a
    /// matcher can always reach an end. If nothing matches, `root` has no alternatives.
    grammar build(symbol root) &&;

  private:
    /// no_set: single_byte() has not made the set yet.
    static constexpr std::uint32_t no_set = static_cast<std::uint32_t>(-1);

    symbol repeat_in_blocks(const sequence& unit, int least, int most);
    symbol single_byte(unsigned char byte);
    void charge(std::size_t symbols, std::size_t memory_bytes);

    storage::work_budget own_budget_;
    storage::work_budget& budget_;
    std::size_t charged_bytes_ = 0;
    grammar made_;
    std::unordered_map<byte_set, std::uint32_t> set_index_;  // of made_.byte_sets
    std::array<std::uint32_t, 256> single_bytes_{};          // sets of one byte; no_set: none yet
    std::size_t symbols_ = 0;                                // of all alternatives so far
    std::uint32_t chains_ = 0;                               // repetitions so far
};

inline grammar::sequence operator+(grammar::sequence a, const grammar::sequence& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}
inline grammar::sequence operator+(grammar::sequence a, grammar::symbol b) {
    a.push_back(b);
    return a;
}

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A context-free grammar over bytes and special tokens: what an answer may look like. Built once,
// then immutable and safe to share between threads. Whatever builds one charges a budget.

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

    /// A rule of a repetition that is written out, one rule for each time: what is still to come
    /// of `chain` (0: none), whose rules are alike in all else.
    struct repetition {
        std::uint32_t chain = 0;
        int least_left = 0;
        int most_left = 0;  // < 0: without end
    };

    std::vector<byte_set> byte_sets;
    std::vector<std::vector<sequence>> rules;  // alternatives; none: nothing matches
    std::vector<repetition> repetitions;       // [rule]
    /// Bytes that an alternative takes at least, up to bytes_far; a special token counts as one.
    static constexpr int bytes_far = 1 << 20;
    std::vector<int> bytes_least;  // [rule]
    std::uint32_t root = 0;
    std::size_t memory_bytes = 0;  // that all of this takes, about
};

/// A description that would become larger than a grammar may be.
class grammar_too_large : public std::runtime_error {
  public:
    grammar_too_large() : std::runtime_error("it describes more than an answer can be held to") {}
};

/// What must come next of an answer is nothing that the model's vocabulary spells.
class unwritable_form : public std::runtime_error {
  public:
    unwritable_form()
        : std::runtime_error("the model's vocabulary cannot write what must come next") {}
};

class grammar_builder {
  public:
    using symbol = grammar::symbol;
    using sequence = grammar::sequence;

    /// Symbols in all alternatives together. Far above what people write.
    static constexpr std::size_t symbols_max = 400'000;

    /// With a budget of its own, of the default limits.
    grammar_builder() : budget_(own_budget_) { single_bytes_.fill(no_set); }
    /// `budget` must outlive this. Whatever adds to the grammar throws work_limit_exceeded, too.
    explicit grammar_builder(storage::work_budget& budget) : budget_(budget) {
        single_bytes_.fill(no_set);
    }
    ~grammar_builder() { budget_.release_bytes(charged_bytes_); }
    grammar_builder(const grammar_builder&) = delete;
    grammar_builder& operator=(const grammar_builder&) = delete;

    storage::work_budget& budget() { return budget_; }

    symbol bytes(const byte_set& set);
    symbol token(token_id id) const;
    sequence literal(std::string_view text);
    /// An empty rule, to be filled by add(): what a description that refers to itself needs.
    symbol new_rule();
    /// Throws grammar_too_large.
    void add(symbol rule, sequence alternative);

    symbol any_of(std::vector<sequence> alternatives);
    /// `unit` from `least` to `most` times; `most` < 0: without end. Throws grammar_too_large.
    symbol repeat(const sequence& unit, int least, int most);

    /// The finished grammar, without alternatives that can never be completed: whatever a matcher
    /// has taken, an end remains within reach. `root` is left without alternatives when nothing
    /// matches.
    grammar build(symbol root) &&;

  private:
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
    std::size_t symbols_ = 0;
    std::uint32_t chains_ = 0;
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

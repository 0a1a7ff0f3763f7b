// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grammar as matchers walk it: all alternatives one after another. Made once for each grammar,
// then immutable and safe to share between threads.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

struct grammar_program {
    static constexpr std::uint32_t end_mark = static_cast<std::uint32_t>(-1);

    /// `outlook`: how many bytes grammar_matcher::look_alike() looks ahead; 0 where it is not
    /// asked.
    explicit grammar_program(std::shared_ptr<const grammar> source, int outlook = 0);
    grammar_program(const grammar_program&) = delete;
    grammar_program& operator=(const grammar_program&) = delete;

    /// Positions of the rule's alternatives.
    std::span<const std::uint32_t> starts_of(std::uint32_t rule) const {
        return std::span(starts).subspan(first_start[rule],
                                         first_start[rule + 1] - first_start[rule]);
    }
    bool is_end(std::uint32_t position) const {
        return symbols[position] == grammar::symbol{grammar::kind::rule, end_mark};
    }
    /// What this and the grammar take in memory, about.
    std::size_t memory_bytes() const;

    std::shared_ptr<const grammar> rules;
    int outlook_bytes = 0;
    std::vector<grammar::symbol> symbols;  // every alternative, each followed by an end mark
    std::vector<std::uint32_t> labels;     // [position] the same where an outlook is
    std::vector<int> bytes_least;          // [position] bytes that its alternative takes from here
    std::vector<std::uint32_t> starts, first_start;  // [rule] into starts; one more at the end
    std::array<std::uint16_t, 256> class_of{};       // bytes that no set distinguishes
    std::size_t classes = 1;

  private:
    using chain_labels = std::map<std::array<int, 4>, std::uint32_t>;

    void flatten();
    void add_labels(std::size_t rule, const grammar::sequence& alternative, chain_labels& known);
    void classify_bytes();
};

}  // namespace semantic::engine

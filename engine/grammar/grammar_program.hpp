// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grammar in the form that matchers use: the symbols of all alternatives in one array, whose
// indexes are positions. Made once for each grammar, then immutable and safe to share between
// threads.

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

    /// `outlook`: how many bytes grammar_matcher::look_alike() looks ahead; 0 if it is not used.
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
    /// Bytes of memory of this and the grammar, about.
    std::size_t memory_bytes() const;

    std::shared_ptr<const grammar> rules;
    int outlook_bytes = 0;
    std::vector<grammar::symbol> symbols;  // all alternatives, each followed by an end mark
    std::vector<std::uint32_t> labels;     // [position] equal for positions with equal outlooks
    std::vector<int> bytes_least;  // [position] the fewest bytes from here to the alternative's end
    // Positions of alternatives; those of a rule begin at starts[first_start[rule]].
    std::vector<std::uint32_t> starts, first_start;
    std::array<std::uint16_t, 256> class_of{};  // bytes that no set distinguishes have one class
    std::size_t classes = 1;

  private:
    using chain_labels = std::map<std::array<int, 4>, std::uint32_t>;

    /// Fills symbols, labels, bytes_least and starts.
    void flatten();
    void add_labels(std::size_t rule, const grammar::sequence& alternative, chain_labels& known);
    void classify_bytes();
};

}  // namespace semantic::engine

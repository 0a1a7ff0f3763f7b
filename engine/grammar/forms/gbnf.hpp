// SPDX-License-Identifier: Apache-2.0
#pragma once
// Grammars in GBNF, as llama.cpp has it: rules `name ::= ...` of literals, classes, groups,
// repetitions and names; the answer is what `root` describes. Pure.

#include <stdexcept>
#include <string_view>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

/// A text that is no grammar, or one that cannot be held to; what() names the place and the fault.
class invalid_grammar : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

constexpr std::size_t gbnf_bytes_max = 64 * 1024;

/// Appends the rules to a grammar. Returns: `root`. Throws invalid_grammar, grammar_too_large.
grammar_builder::symbol read_gbnf(grammar_builder& out, std::string_view text);

/// Whether some rule begins with itself, followed by more: a matcher would recurse for ever.
bool recurses_on_the_left(const grammar& rules);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads grammars in GBNF, the notation of llama.cpp: rules `name ::= ...` of literals, classes,
// groups, repetitions and names of rules; an answer has to match the rule `root`. Pure.

#include <stdexcept>
#include <string_view>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

/// Thrown for a text that is not a valid grammar, or one that is too large; what() has the place
/// and the fault.
class invalid_grammar : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

constexpr std::size_t gbnf_bytes_max = 64 * 1024;

/// Adds the rules to a grammar. Returns: the symbol of `root`. Throws invalid_grammar,
/// grammar_too_large.
grammar_builder::symbol read_gbnf(grammar_builder& out, std::string_view text);

/// Whether a rule is left-recursive: it begins with itself, followed by more. A matcher could not
/// read it.
bool recurses_on_the_left(const grammar& rules);

}  // namespace semantic::engine

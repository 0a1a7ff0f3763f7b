// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes the plain texts that a regular expression matches as a whole. Pure.

#include <string_view>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

/// Texts that `pattern` matches. Expressions are as in string_pattern.hpp, without look-aheads; '^'
/// and '$' at the ends are redundant. Throws unsupported_schema, with the part that is not
/// supported; grammar_too_large.
grammar_builder::symbol texts_matching(grammar_builder& out, std::string_view pattern);

}  // namespace semantic::engine

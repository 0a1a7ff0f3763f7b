// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plain text that a regular expression matches as a whole. Pure.

#include <string_view>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

/// The expressions are those of string_pattern.hpp, without conditions; '^' and '$' at the ends
/// say nothing new. Throws unsupported_schema, naming what of the expression is not supported;
/// grammar_too_large.
grammar_builder::symbol texts_matching(grammar_builder& out, std::string_view pattern);

}  // namespace semantic::engine

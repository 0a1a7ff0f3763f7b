// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes text that ends with a mark as a grammar. Pure.

#include <string_view>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

/// Any text up to the first `mark`, the mark, and then `rest`. `may_end`: the text may also end
/// without a mark. Requires: `mark` is not empty. Throws grammar_too_large.
grammar_builder::symbol text_up_to(grammar_builder& out, std::string_view mark,
                                   grammar_builder::symbol rest, bool may_end);

}  // namespace semantic::engine

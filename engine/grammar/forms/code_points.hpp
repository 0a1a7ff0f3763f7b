// SPDX-License-Identifier: Apache-2.0
#pragma once
// Characters of UTF-8 as a grammar. Pure.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.hpp"

namespace semantic::engine {

/// Code points [first, last].
struct code_range {
    std::uint32_t first = 0, last = 0;
};
constexpr std::uint32_t code_point_max = 0x10FFFF;

/// In order, apart from each other, within Unicode; without the halves of UTF-16 pairs, which UTF-8
/// does not write.
std::vector<code_range> sorted(std::vector<code_range> ranges);
/// All other characters. Requires: `ranges` as sorted() leaves them.
std::vector<code_range> all_but(const std::vector<code_range>& ranges);

/// One character of `ranges`, as UTF-8. None at all when there are none. Throws grammar_too_large.
grammar_builder::symbol one_character_of(grammar_builder& out, std::vector<code_range> ranges);

}  // namespace semantic::engine

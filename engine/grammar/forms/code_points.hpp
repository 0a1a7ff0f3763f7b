// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes sets of Unicode characters as a grammar of UTF-8. Pure.

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

/// The characters of `ranges` as ranges in ascending order that do not touch, without those beyond
/// Unicode and without surrogates, which UTF-8 does not have.
std::vector<code_range> sorted(std::vector<code_range> ranges);
/// All other characters. Requires: `ranges` are as sorted() returns them.
std::vector<code_range> all_but(const std::vector<code_range>& ranges);

/// One character of `ranges`, as UTF-8; nothing matches if there are none. Throws
/// grammar_too_large.
grammar_builder::symbol one_character_of(grammar_builder& out, std::vector<code_range> ranges);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which candidates have to be measured before the smallest one within the bound is known. Pure
// functions of what was measured so far.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/recipe/calibration.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::engine {

/// Whether `a` keeps K and V in the forms of `b` with at least its bits, and is another one.
bool is_finer(const storage::kv_recipe& a, const storage::kv_recipe& b) noexcept;

/// Returns: indices of the candidates to measure side by side next, ascending; none: the choice is
/// made. Left out is what cannot be chosen, because a candidate with no more bytes is within the
/// bound or a finer one is not well within it, and keys of 4 bits until those of 5 were measured.
/// Shape: scores of the candidates, in their order,
/// with those that were not measured; the last one is the reference and was.
std::vector<std::size_t> next_batch(std::span<const storage::named_kv_recipe> candidates,
                                    std::span<const recipe_score> scores,
                                    const recipe_bound& bound);

}  // namespace semantic::engine

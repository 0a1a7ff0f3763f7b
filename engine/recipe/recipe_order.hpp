// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which candidate recipes are measured next, until the smallest one within the bound is
// known. Pure functions of the scores so far.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/recipe/calibration.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::engine {

/// Whether `a` is a finer recipe of the same kind: it stores K and V in the same forms as `b`, with
/// at least as many bits of each, and is not `b`.
bool is_finer(const storage::kv_recipe& a, const storage::kv_recipe& b) noexcept;

/// Returns: the indices of the candidates to measure side by side next, ascending; none if the
/// choice is made. Leaves out candidates that cannot be chosen: a candidate with no more bytes is
/// within the bound already, or a finer one is not well within it. Candidates with keys of 4 bits
/// wait for those with keys of 5. `scores`: of all candidates, in their order, measured or not; the
/// last one is the reference, which counts as measured.
std::vector<std::size_t> next_batch(std::span<const storage::named_kv_recipe> candidates,
                                    std::span<const recipe_score> scores,
                                    const recipe_bound& bound);

}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Limits how long the grammars of constrained answers ("forms") may work in one step. Pure. A form
// decides which token may come next; its cost depends on the client's schema. A sequence whose form
// needs more than its share sits out the next step and continues there with another share, so that
// the tokens of other answers are hardly delayed.

#include <cstdint>

namespace semantic::engine {

struct form_load {
    int held = 0;             // answers of this step that a form constrains
    int threads = 1;          // that forms work on side by side
    double pass_seconds = 0;  // of the model, in this step
    bool is_alone = false;    // nobody else has a token in this step
};

/// The share of a further choice that begins between two steps, and the least that any answer gets.
constexpr std::int64_t form_share_least = 2'000;

/// Returns: how many automaton positions each constrained answer's form may look at in this step,
/// form_share_least or more: the unit of output_constraint::begin_slice().
std::int64_t form_share(const form_load& load);

}  // namespace semantic::engine

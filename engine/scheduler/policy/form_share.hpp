// SPDX-License-Identifier: Apache-2.0
#pragma once
// Limits the work that the forms of held answers do in one step. Pure. A form says which token may
// come next; its cost depends on the client's schema. A sequence that needs more than its share
// sits out the next step and goes on with another share, so that the tokens of others come little
// later.

#include <cstdint>

namespace semantic::engine {

struct form_load {
    int held = 0;             // answers of this step whose forms have something to say
    int threads = 1;          // that forms work on side by side
    double pass_seconds = 0;  // of the model, in this step
    bool is_alone = false;    // nobody else has a token in this step
};

/// What a choice may take that begins between two steps.
constexpr std::int64_t form_share_least = 2'000;

/// Returns: places that the automaton of each held answer may look at now (see
/// output_constraint::begin_slice), form_share_least or more.
std::int64_t form_share(const form_load& load);

}  // namespace semantic::engine

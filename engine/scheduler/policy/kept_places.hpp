// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the positions of a text at which recurrent states are kept. A model with recurrent layers
// can continue a text only from a position whose state was kept, so states are kept where later
// prompts are likely to diverge. Pure functions, tested as tables, without model, pool or clock. A
// "place" is a position, given as the number of tokens before it.

#include <cstddef>
#include <span>
#include <vector>

namespace semantic::engine {

/// The positions of a prompt at which later prompts are likely to diverge from it; 0 or empty if
/// the prompt has no such position.
struct prompt_places {
    int root = 0;                 // the end of system text and tools, which many agents begin with
    std::vector<int> messages{};  // starts of the user's messages, ascending
    // The start of the generation prompt, which asks for the answer. A later prompt diverges here
    // if its template leaves out the answer's reasoning.
    int generation = 0;
};

struct place_rules {
    int ladder = 2048;  // while a long text is read, one place every so many tokens
    int grain = 1;      // places are multiples of it, except for the end of a memory
    int per_turn = 2;   // new places that a turn may add, the end of its answer included
    int per_agent = 8;  // places of a memory, its newest two included, roots not
    int roots = 4;      // roots of a memory; earlier ones beyond that count as other places
};

struct planned_place {
    int tokens = 0;
    bool is_root = false;
    bool operator==(const planned_place&) const = default;
};

/// Returns: the positions at which a prefill chunk has to end so that the state there can be kept,
/// ascending: those of `prompt`, and one every `ladder` tokens. Only positions after `known`
/// (tokens before it are reused and not run) and before the prompt's end.
std::vector<planned_place> plan_places(const prompt_places& prompt, int known, int prompt_tokens,
                                       const place_rules& rules);

/// Returns: the first place after `position`; 0: there is none.
int place_behind(std::span<const planned_place> places, int position);

/// A place whose state a memory has.
struct place_entry {
    int tokens = 0;
    bool is_root = false;
    bool is_new = false;  // added in the current turn
};

/// Returns: for each of `places` (ascending), whether the memory keeps it. The latest `roots` roots
/// and the newest two other places stay. Of the current turn's places the last `per_turn` stay.
/// Further ones are dropped until `per_agent` are left, each time the one whose loss leaves the
/// smallest gap between its neighbours.
std::vector<bool> choose_places(std::span<const place_entry> places, const place_rules& rules);

}  // namespace semantic::engine

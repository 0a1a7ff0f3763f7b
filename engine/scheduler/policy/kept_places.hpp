// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where in a text recurrent states are kept, and which of them a memory goes on keeping. Pure: a
// function of places, tested as tables, without model, pool or clock. A place is the number of
// tokens before it. Nothing here is asked where a model has no recurrent state.

#include <cstddef>
#include <span>
#include <vector>

namespace semantic::engine {

/// The places of a prompt that prompts part at; 0 or none where there is no such place.
struct prompt_places {
    int root = 0;                 // the end of system text and tools, which many agents begin with
    std::vector<int> messages{};  // starts of the user's messages, ascending
    int generation = 0;  // before what asks for the answer: reasoning is left out from there
};

struct place_rules {
    int ladder = 2048;  // tokens from one place to the next while a long text is read
    int grain = 1;      // places are multiples of it, but for the end of a memory
    int per_turn = 2;   // new ones that a turn leaves, the end of its answer among them
    int per_agent = 8;  // of a memory, the newest two among them; roots come on top
    int roots = 4;      // of a memory; earlier ones beyond that count as others
};

struct planned_place {
    int tokens = 0;
    bool is_root = false;
    bool operator==(const planned_place&) const = default;
};

/// Returns: the places where the chunks of a prompt are to end, ascending: all of `prompt` that
/// count, and a ladder. Those at or before `known`, whose tokens are not run, are left out, as is
/// the prompt's end.
std::vector<planned_place> plan_places(const prompt_places& prompt, int known, int prompt_tokens,
                                       const place_rules& rules);

/// Returns: the first place after `position`; 0: there is none.
int place_behind(std::span<const planned_place> places, int position);

/// A place whose state is there.
struct place_entry {
    int tokens = 0;
    bool is_root = false;
    bool is_new = false;  // of this turn
};

/// Returns: for each of `places`, which ascend, whether the memory keeps it. Roots stay, and so do
/// the newest two; of this turn's the last `per_turn` stay; of the others that leaves the smallest
/// gap until there are no more than `per_agent`.
std::vector<bool> choose_places(std::span<const place_entry> places, const place_rules& rules);

}  // namespace semantic::engine

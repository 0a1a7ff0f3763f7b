// SPDX-License-Identifier: Apache-2.0
// How far a sequence that gave way goes on from its memory.

#include "engine/scheduler/states/resumable_place.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::engine {
namespace {

TEST(resumable_place, is_the_last_state_within_what_the_tokens_have_in_common) {
    storage::agent_state memory{*storage::agent_id::parse("a")};
    memory.tokens = {1, 2, 3, 4, 5, 6, 7, 8};
    memory.states = {{2}, {5}, {8}};
    const struct {
        std::vector<storage::token_id> tokens;
        int place;
    } table[]{
        {{}, 0},
        {{1, 2}, 0},  // the last one is run in any case
        {{1, 2, 3}, 2},
        {{1, 2, 9, 4, 5, 6}, 2},
        {{1, 9, 3, 4}, 0},
        {{1, 2, 3, 4, 5}, 2},
        {{1, 2, 3, 4, 5, 9}, 5},
        {{1, 2, 3, 4, 5, 6, 7, 8}, 5},
        {{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8},
    };
    for (const auto& row : table)
        EXPECT_EQ(find_resumable(memory, row.tokens), row.place) << row.tokens.size();
    memory.states.clear();
    EXPECT_EQ(find_resumable(memory, table[8].tokens), 0);
}

}  // namespace
}  // namespace semantic::engine

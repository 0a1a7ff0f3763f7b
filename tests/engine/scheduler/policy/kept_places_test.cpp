// SPDX-License-Identifier: Apache-2.0
// Where recurrent states are kept, as tables.

#include "engine/scheduler/policy/kept_places.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace semantic::engine {
namespace {

constexpr place_rules rules;

TEST(plan_places, are_where_prompts_part_and_a_ladder_in_between) {
    struct row {
        const char* name;
        prompt_places prompt;
        int known, tokens, grain;
        std::vector<planned_place> places;
    };
    const std::vector<row> table = {
        {"nothing is known of the text", {}, 0, 900, 1, {}},
        {"a first turn", {300, {300}, 350}, 0, 360, 1, {{300, true}, {350, false}}},
        {"a later one begins behind the root",
         {300, {300, 420}, 500},
         400,
         510,
         1,
         {{420, false}, {500, false}}},
        {"what is known is not run", {300, {300, 420}, 500}, 500, 510, 1, {}},
        {"one token behind", {300, {300, 420}, 500}, 499, 510, 1, {{500, false}}},
        {"of a history the last two messages",
         {100, {100, 200, 300, 400}, 450},
         0,
         460,
         1,
         {{100, true}, {300, false}, {400, false}, {450, false}}},
        {"a short root is read again", {31, {31}, 60}, 0, 70, 1, {{31, false}, {60, false}}},
        {"a long enough one", {32, {32}, 60}, 0, 70, 1, {{32, true}, {60, false}}},
        {"whole groups of f16 rows", {300, {300}, 350}, 0, 360, 16, {{288, true}, {336, false}}},
        {"not the end", {0, {}, 360}, 0, 360, 1, {}},
        {"a long text", {}, 0, 5000, 1, {{2048, false}, {4096, false}}},
        {"its last place is left out near the end", {}, 0, 4096 + 511, 1, {{2048, false}}},
        {"and not a token earlier", {}, 0, 4096 + 512, 1, {{2048, false}, {4096, false}}},
        {"or near another place", {0, {}, 2100}, 0, 3000, 1, {{2100, false}}},
        {"from absolute positions", {}, 2000, 5000, 1, {{2048, false}, {4096, false}}},
        {"a place of the ladder that is known", {}, 2048, 5000, 1, {{4096, false}}},
    };
    for (const row& each : table) {
        place_rules wanted;
        wanted.grain = each.grain;
        EXPECT_EQ(plan_places(each.prompt, each.known, each.tokens, wanted), each.places)
            << each.name;
    }
}

TEST(plan_places, a_ladder_of_a_text_of_any_length_ascends) {
    const auto places = plan_places({}, 0, 1 << 20, rules);
    ASSERT_EQ(places.size(), 511u);
    for (std::size_t i = 1; i < places.size(); ++i)
        EXPECT_EQ(places[i].tokens - places[i - 1].tokens, rules.ladder);
}

TEST(place_behind, is_the_first_one_behind) {
    const std::vector<planned_place> places{{10, true}, {20, false}};
    EXPECT_EQ(place_behind(places, 0), 10);
    EXPECT_EQ(place_behind(places, 9), 10);
    EXPECT_EQ(place_behind(places, 10), 20);
    EXPECT_EQ(place_behind(places, 20), 0);
    EXPECT_EQ(place_behind({}, 0), 0);
}

std::vector<int> left_of(const std::vector<place_entry>& places, const place_rules& wanted) {
    const std::vector<bool> kept = choose_places(places, wanted);
    std::vector<int> left;
    for (std::size_t i = 0; i < places.size(); ++i)
        if (kept[i]) left.push_back(places[i].tokens);
    return left;
}

TEST(choose_places, keep_roots_and_the_newest_and_thin_the_others) {
    constexpr bool root = true, fresh = true;
    struct row {
        const char* name;
        std::vector<place_entry> places;
        int per_agent;
        std::vector<int> left;
    };
    const std::vector<row> table = {
        {"nothing", {}, 8, {}},
        {"a first turn",
         {{100, root, fresh}, {150, false, fresh}, {180, false, fresh}},
         8,
         {100, 150, 180}},
        {"two a turn, the last ones, and the root",
         {{100, root, fresh}, {150, false, fresh}, {170, false, fresh}, {180, false, fresh}},
         8,
         {100, 170, 180}},
        {"what was there stays",
         {{90}, {150, false, fresh}, {170, false, fresh}},
         8,
         {90, 150, 170}},
        {"no more than may be", {{10}, {20}, {40}, {80}}, 3, {20, 40, 80}},
        {"of equal gaps the earlier place goes",
         {{10}, {20}, {30}, {40}, {50}},
         4,
         {20, 30, 40, 50}},
        {"the gap that it leaves, not the one that it has",
         {{100}, {300}, {310}, {520}, {900}, {910}},
         5,
         {100, 310, 520, 900, 910}},
        {"the newest two stay however close",
         {{1000}, {2000}, {2001}, {2002}},
         3,
         {1000, 2001, 2002}},
        {"never fewer than two", {{10}, {20}, {30}}, 0, {20, 30}},
        {"roots come on top", {{10, root}, {20}, {30}, {40}}, 2, {10, 30, 40}},
        {"a root is a neighbour",
         {{100, root}, {101}, {300}, {400}, {500}},
         3,
         {100, 300, 400, 500}},
    };
    for (const row& each : table) {
        place_rules wanted;
        wanted.per_agent = each.per_agent;
        EXPECT_EQ(left_of(each.places, wanted), each.left) << each.name;
    }
}

TEST(choose_places, roots_have_a_number_too) {
    place_rules wanted;
    wanted.roots = 2;
    wanted.per_agent = 2;
    EXPECT_EQ(left_of({{10, true}, {20, true}, {30, true}, {40}, {50}}, wanted),
              (std::vector<int>{20, 30, 40, 50}));
}

// Goal: what a long conversation keeps is bounded, whatever its length. Method: 100 turns.
TEST(choose_places, a_long_conversation_keeps_places_over_all_of_its_length) {
    std::vector<place_entry> memory{{100, true}};
    int end = 100;
    for (int turn = 0; turn < 100; ++turn) {
        for (place_entry& each : memory) each.is_new = false;
        memory.push_back({end + 60, false, true});
        memory.push_back({end += 120, false, true});
        const std::vector<bool> kept = choose_places(memory, rules);
        std::vector<place_entry> next;
        for (std::size_t i = 0; i < memory.size(); ++i)
            if (kept[i]) next.push_back(memory[i]);
        memory = next;
        ASSERT_LE(memory.size(), 1u + static_cast<std::size_t>(rules.per_agent));
        ASSERT_EQ(memory.front().tokens, 100);
        ASSERT_EQ(memory.back().tokens, end);
        ASSERT_EQ(memory[memory.size() - 2].tokens, end - 60);
    }
    // The largest stretch without a place is a fair share of the whole.
    int widest = 0;
    for (std::size_t i = 1; i < memory.size(); ++i)
        widest = std::max(widest, memory[i].tokens - memory[i - 1].tokens);
    EXPECT_LT(widest, end / 2);
}

}  // namespace
}  // namespace semantic::engine

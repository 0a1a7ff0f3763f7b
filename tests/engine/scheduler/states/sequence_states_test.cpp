// SPDX-License-Identifier: Apache-2.0
// What a running sequence keeps of its recurrent states, and what its memory is published with.

#include "engine/scheduler/states/sequence_states.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::engine {
namespace {

using storage::kept_state;

class sequence_states_test : public testing::Test {
  protected:
    /// Begins after `known` tokens of a memory with these places.
    sequence_states begin(int known, const std::vector<kept_state>& kept,
                          std::vector<planned_place> planned, place_rules rules = {}) {
        return {pool, known > 0 ? state() : nullptr, known, kept, std::move(planned), rules};
    }
    storage::recurrent_ptr state() {
        const auto made = *storage::recurrent_state::make(pool);
        made->bytes()[0] = std::byte{7};
        return made;
    }
    /// A step that runs the tokens up to `position`.
    static void step(sequence_states& states, int position) {
        ASSERT_TRUE(states.reserve());
        ASSERT_NE(states.next(), nullptr);
        ASSERT_NE(states.next(), states.current());
        *states.next() = std::byte(position);
        states.advance(position);
        ASSERT_EQ(*states.current(), std::byte(position));
    }
    struct seen {
        int tokens;
        int value;  // of the state's first byte; -1: it is not there
        bool is_root;
        bool waits;
        bool operator==(const seen&) const = default;
    };
    static std::vector<seen> seen_in(const std::vector<kept_state>& states) {
        std::vector<seen> all;
        for (const kept_state& each : states)
            all.push_back({static_cast<int>(each.tokens),
                           each.state ? static_cast<int>(each.state->bytes()[0]) : -1, each.is_root,
                           each.waits});
        return all;
    }

    const storage::kv_layout layout{{{1, 64, 64, 0}}, {4, 64}, 16, 64};
    storage::block_pool pool{layout, layout.frame_bytes() * 100};
};

TEST_F(sequence_states_test, a_turn_keeps_its_root_the_place_before_the_answer_and_its_end) {
    auto states = begin(0, {}, {{40, true}, {50, false}});
    EXPECT_EQ(states.current(), nullptr) << "of zeros";
    EXPECT_EQ(states.next_place(0), 40);
    step(states, 40);
    EXPECT_EQ(states.next_place(40), 50);
    step(states, 50);
    EXPECT_EQ(states.next_place(50), 0);
    for (int position = 55; position <= 60; ++position) step(states, position);
    EXPECT_EQ(pool.state_count(), 4u) << "two that run and two that are kept";
    EXPECT_EQ(
        seen_in(states.publish(60, true, false)),
        (std::vector<seen>{{40, 40, true, false}, {50, 50, false, false}, {60, 60, false, false}}));
}

TEST_F(sequence_states_test, before_the_end_of_a_turn_one_new_state_is_worth_writing) {
    place_rules rules;
    rules.ladder = 20;
    auto states = begin(0, {}, {{19, true}, {40, false}, {50, false}}, rules);
    step(states, 19);
    EXPECT_EQ(seen_in(states.publish(19, true, true)), (std::vector<seen>{{19, 19, true, true}}))
        << "one token less than a step of the ladder is soon read again";
    step(states, 40);
    step(states, 50);
    step(states, 55);
    const std::vector<seen> early{{19, 19, true, true}, {40, 40, false, false}};
    EXPECT_EQ(seen_in(states.publish(48, false, true)), early);
    EXPECT_EQ(
        seen_in(states.publish(50, false, true)),
        (std::vector<seen>{{19, 19, true, true}, {40, 40, false, false}, {50, 50, false, true}}))
        << "one is enough, however often the memory is published in a turn";
    EXPECT_EQ(
        seen_in(states.publish(55, true, true)),
        (std::vector<seen>{{19, 19, true, true}, {50, 50, false, true}, {55, 55, false, true}}));
    // Nothing of it is lost at the end.
    step(states, 57);
    EXPECT_EQ(
        seen_in(states.publish(57, true, false)),
        (std::vector<seen>{{19, 19, true, false}, {50, 50, false, false}, {57, 57, false, false}}));
}

TEST_F(sequence_states_test, a_turn_counts_from_where_it_began_and_not_from_a_shared_head) {
    place_rules rules;
    rules.ladder = 20;
    auto states = begin(30, {}, {{49, false}, {60, false}}, rules);
    step(states, 49);
    EXPECT_TRUE(states.publish(49, true, true).back().waits);
    states.go_on_from(state(), 50, {});
    step(states, 60);
    EXPECT_FALSE(states.publish(60, true, true).back().waits) << "30 tokens of this turn";
}

TEST_F(sequence_states_test, what_was_published_is_never_written_again) {
    auto states = begin(0, {}, {});
    step(states, 10);
    const auto first = states.publish(10, true, true);
    for (int position = 11; position < 20; ++position) step(states, position);
    EXPECT_EQ(seen_in(first), (std::vector<seen>{{10, 10, false, true}}));
}

TEST_F(sequence_states_test, one_that_gives_way_has_the_state_written_that_it_returns_to) {
    auto states = begin(0, {}, {{5, false}});
    step(states, 5);
    step(states, 10);
    states.write_early(10);
    EXPECT_EQ(seen_in(states.publish(10, true, true)),
              (std::vector<seen>{{5, 5, false, true}, {10, 10, false, false}}));
}

TEST_F(sequence_states_test, goes_on_with_what_the_memory_before_it_keeps) {
    std::vector<kept_state> kept{{40, true, false, state()},
                                 {50, false, true, nullptr},
                                 {60, false, false, nullptr},
                                 {70, false, false, state()}};
    auto states = begin(60, kept, {{65, false}});
    step(states, 65);
    step(states, 66);
    const auto published = states.publish(66, true, false);
    ASSERT_EQ(published.size(), 5u);
    EXPECT_EQ(published[0].state, kept[0].state);
    EXPECT_EQ(published[1].state, nullptr) << "on disk only";
    EXPECT_FALSE(published[1].waits);
    EXPECT_NE(published[2].state, nullptr) << "read for this sequence";
    EXPECT_EQ(published[3].tokens, 65u);
    EXPECT_EQ(published[4].tokens, 66u) << "70 lay behind the parting";
}

TEST_F(sequence_states_test, a_long_text_has_two_of_its_ladder_in_memory) {
    std::vector<planned_place> ladder;
    for (int place = 10; place <= 100; place += 10) ladder.push_back({place, false});
    auto states = begin(0, {}, ladder);
    for (int place = 10; place <= 100; place += 10) step(states, place);
    EXPECT_LE(pool.state_count(), 4u);
    EXPECT_EQ(seen_in(states.publish(100, true, false)),
              (std::vector<seen>{{90, 90, false, false}, {100, 100, false, false}}));
}

TEST_F(sequence_states_test, gives_up_what_it_kept_on_the_way_and_starts_anew) {
    std::vector<kept_state> kept{{30, true, false, state()}};
    auto states = begin(30, kept, {{40, false}});
    step(states, 40);
    step(states, 41);
    EXPECT_TRUE(states.drop_kept());
    EXPECT_FALSE(states.drop_kept());
    EXPECT_EQ(states.publish(41, true, false).size(), 2u);
    states.reset();
    kept.clear();
    EXPECT_EQ(states.current(), nullptr);
    EXPECT_EQ(pool.state_count(), 0u);
    step(states, 10);
    EXPECT_EQ(seen_in(states.publish(10, true, false)),
              (std::vector<seen>{{10, 10, false, false}}));
    for (int position : {35, 40, 45}) step(states, position);
    EXPECT_EQ(
        seen_in(states.publish(45, true, false)),
        (std::vector<seen>{{30, -1, true, false}, {40, 40, false, false}, {45, 45, false, false}}))
        << "kept again, and where it was on disk it still is";
}

TEST_F(sequence_states_test, a_memory_ends_with_a_state_that_is_here) {
    auto states = begin(30, {{20, false, false, nullptr}, {30, true, false, nullptr}}, {});
    states.reset();
    step(states, 25);
    EXPECT_TRUE(states.publish(25, false, true).empty()) << "20 is not here, 30 not computed yet";
}

TEST_F(sequence_states_test, places_inside_a_group_stay_at_the_end_only) {
    place_rules rules;
    rules.grain = 16;
    auto states = begin(40, {{16, false, false, state()}, {40, false, false, nullptr}}, {}, rules);
    step(states, 41);
    EXPECT_EQ(seen_in(states.publish(41, true, false)),
              (std::vector<seen>{{16, 7, false, false}, {41, 41, false, false}}));
}

TEST(sequence_states, are_nothing_where_the_model_has_none) {
    const storage::kv_layout layout{{{1, 64, 64, 0}}, {4, 64}, 16};
    storage::block_pool pool(layout, layout.frame_bytes() * 100);
    sequence_states states(pool, nullptr, 0, {}, {}, {});
    EXPECT_TRUE(states.reserve());
    states.advance(10);
    EXPECT_EQ(states.next(), nullptr);
    EXPECT_TRUE(states.publish(10, true, false).empty());
    EXPECT_EQ(pool.held_count(), 0u);
}

}  // namespace
}  // namespace semantic::engine

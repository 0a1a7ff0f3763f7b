// SPDX-License-Identifier: Apache-2.0
// What several pools have together: frames by use, memory within the budget, and a line for who
// finds no room.

#include "storage/pool/pool_budget.hpp"

#include <gtest/gtest.h>

#include "storage/pool/block_pool.hpp"

namespace semantic::storage {
namespace {

constexpr std::size_t frames = 16;

struct counting_listener final : room_listener {
    void notice_room() override { ++count; }
    int count = 0;
};

class pool_budget_test : public testing::Test {
  protected:
    counting_listener heard;  // pools that end may notify it
    const kv_layout layout{{{1, 64, 64, 0}}, {}, 256};
    const std::shared_ptr<pool_budget> budget =
        std::make_shared<pool_budget>(layout.frame_bytes() * frames);
    block_pool a{layout, budget};
    block_pool b{layout, budget};
};

TEST_F(pool_budget_test, a_frame_counts_for_all_pools_while_it_is_held) {
    EXPECT_EQ(a.frame_count(), frames);
    auto mine = a.allocate(10);
    ASSERT_TRUE(mine);
    EXPECT_EQ(b.free_count(), frames - 10);
    EXPECT_EQ(b.held_count(), 0u);
    EXPECT_EQ(b.allocate(7).error().code, errc::pool_exhausted);
    auto others = b.allocate(6);
    ASSERT_TRUE(others);
    EXPECT_EQ(a.free_count(), 0u);
    a.release(*mine);
    EXPECT_EQ(b.free_count(), 10u);
    b.release(*others);
    EXPECT_EQ(budget->held_bytes(), 0u);
}

TEST_F(pool_budget_test, memory_that_one_pool_has_left_free_goes_back_when_another_needs_it) {
    auto mine = a.allocate(frames);
    ASSERT_TRUE(mine);
    for (std::byte* frame : *mine) frame[0] = frame[layout.frame_bytes() - 1] = std::byte{7};
    a.release(*mine);
    EXPECT_EQ(budget->touched_bytes(), budget->bytes());
    auto others = b.allocate(5);
    ASSERT_TRUE(others);
    EXPECT_EQ(budget->touched_bytes(), budget->bytes()) << "taken from the other's, not on top";
    auto again = a.allocate(frames - 5);
    ASSERT_TRUE(again);
    EXPECT_LE(budget->touched_bytes(), budget->bytes());
    a.release(*again);
    b.release(*others);
}

TEST_F(pool_budget_test, giving_memory_back_leaves_neighbours_as_they_are) {
    auto mine = a.allocate(frames);
    ASSERT_TRUE(mine);
    for (std::byte* frame : *mine)
        for (std::size_t i = 0; i < layout.frame_bytes(); ++i) frame[i] = std::byte(i);
    std::vector<std::byte*> every_second;
    std::vector<std::byte*> kept;
    for (std::size_t i = 0; i < frames; ++i) (i % 2 ? every_second : kept).push_back((*mine)[i]);
    a.release(every_second);
    auto others = b.allocate(frames / 2);
    ASSERT_TRUE(others);
    for (std::byte* frame : kept)
        for (std::size_t i = 0; i < layout.frame_bytes(); ++i)
            ASSERT_EQ(frame[i], std::byte(i)) << i;
    a.release(kept);
    b.release(*others);
}

TEST_F(pool_budget_test, who_waits_first_has_its_frames_kept_free_for_it) {
    EXPECT_EQ(a.budget().frames_before(b), 0u);
    budget->wait(a, 9);
    EXPECT_EQ(budget->frames_before(b), 9u);
    EXPECT_EQ(budget->frames_before(a), 0u);
    budget->wait(b, 4);
    EXPECT_EQ(budget->frames_before(b), 9u);
    EXPECT_EQ(budget->frames_before(a), 0u) << "it was first";
    budget->wait(a, 0);
    EXPECT_EQ(budget->frames_before(a), 4u);
    EXPECT_EQ(budget->frames_before(b), 0u);
    budget->wait(b, 100);
    EXPECT_EQ(budget->frames_before(a), frames) << "never more than there is";
}

TEST_F(pool_budget_test, who_waits_hears_of_room_that_others_leave_once) {
    budget->set_listener(a, &heard);
    auto others = b.allocate(2);
    ASSERT_TRUE(others);
    b.release({others->front()});
    EXPECT_EQ(heard.count, 0) << "it does not wait";
    budget->wait(a, 3);
    b.release({others->back()});
    EXPECT_EQ(heard.count, 1);
    budget->set_busy(b, false);
    EXPECT_EQ(heard.count, 1) << "once";
    budget->wait(a, 3);
    budget->tell_of_evictable(b);
    EXPECT_EQ(heard.count, 2);
    budget->set_listener(a, nullptr);
    budget->wait(a, 3);
    budget->tell_of_evictable(b);
    EXPECT_EQ(heard.count, 2);
}

TEST_F(pool_budget_test, who_asks_for_word_hears_whether_room_may_have_come_since_it_last_did) {
    EXPECT_TRUE(budget->want_word(a));
    EXPECT_FALSE(budget->want_word(a)) << "nothing was left meanwhile";
    budget->set_listener(a, &heard);
    budget->tell_of_evictable(b);
    EXPECT_TRUE(budget->want_word(a));
    budget->wait(b, 4);
    EXPECT_FALSE(budget->want_word(b)) << "who waits in the line hears too";
}

TEST_F(pool_budget_test,
       who_waits_hears_that_another_is_no_longer_at_work_and_not_that_it_still_is_not) {
    budget->set_listener(a, &heard);
    budget->set_busy(b, true);
    budget->want_word(a);
    budget->set_busy(b, false);
    EXPECT_EQ(heard.count, 1);
    budget->want_word(a);
    budget->set_busy(b, false);
    EXPECT_EQ(heard.count, 1);
}

TEST_F(pool_budget_test, who_waits_hears_that_a_place_in_front_has_become_smaller) {
    budget->set_listener(b, &heard);
    budget->wait(a, 9);
    budget->wait(b, 9);
    budget->wait(a, 9);
    budget->wait(a, 10);
    EXPECT_EQ(heard.count, 0);
    budget->wait(a, 8);
    EXPECT_EQ(heard.count, 1);
    budget->wait(b, 9);
    budget->wait(a, 0);
    EXPECT_EQ(heard.count, 2);
}

TEST_F(pool_budget_test, one_pool_has_the_turn_until_it_ends_it_or_is_not_busy) {
    budget->set_busy(a, true);
    EXPECT_TRUE(budget->others_are_busy(b));
    EXPECT_FALSE(budget->others_are_busy(a));
    EXPECT_FALSE(budget->is_turn_taken());
    EXPECT_TRUE(budget->take_turn(a));
    EXPECT_TRUE(budget->is_turn_taken());
    EXPECT_TRUE(budget->take_turn(a));
    EXPECT_FALSE(budget->take_turn(b));
    EXPECT_TRUE(budget->has_turn(a));
    EXPECT_FALSE(budget->has_turn(b));
    budget->set_busy(a, false);
    EXPECT_FALSE(budget->is_turn_taken());
    EXPECT_TRUE(budget->take_turn(b));
    budget->set_listener(a, &heard);
    budget->want_word(a);
    budget->end_turn(a);
    EXPECT_TRUE(budget->has_turn(b)) << "only who has it ends it";
    EXPECT_EQ(heard.count, 0);
    budget->end_turn(b);
    EXPECT_FALSE(budget->is_turn_taken());
    EXPECT_EQ(heard.count, 1);
    EXPECT_TRUE(budget->take_turn(b));
    {
        block_pool c(layout, budget);
        budget->set_busy(b, false);
        EXPECT_TRUE(budget->take_turn(c));
    }
    EXPECT_TRUE(budget->take_turn(a)) << "a pool that is gone has none";
}

}  // namespace
}  // namespace semantic::storage

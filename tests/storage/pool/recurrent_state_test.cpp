// SPDX-License-Identifier: Apache-2.0
// Recurrent states: counted with the frames, shared by reference, never written once shared.

#include "storage/pool/recurrent_state.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "storage/pool/block_pool.hpp"

namespace semantic::storage {
namespace {

const std::vector<kv_layer> layers{{1, 64, 64, 0}};
constexpr std::size_t frames = 8;

kv_layout layout_of(std::size_t state_bytes) { return {layers, {4, 64}, 16, state_bytes}; }

class recurrent_state_test : public testing::Test {
  protected:
    // A frame and a byte: two frames' worth.
    const kv_layout layout = layout_of(layout_of(0).frame_bytes() + 1);
    block_pool pool{layout, layout.frame_bytes() * frames};
};

TEST_F(recurrent_state_test, takes_whole_frames_of_the_budget_and_no_frame_of_the_arena) {
    EXPECT_EQ(layout.state_frames(), 2u);
    std::vector<std::shared_ptr<recurrent_state>> states;
    for (std::size_t i = 0; i < frames / 2; ++i) states.push_back(*recurrent_state::make(pool));
    EXPECT_EQ(pool.free_count(), 0u);
    EXPECT_EQ(pool.held_count(), frames);
    EXPECT_EQ(pool.state_count(), frames / 2);
    EXPECT_EQ(recurrent_state::make(pool).error().code, errc::pool_exhausted);
    EXPECT_EQ(pool.allocate(1).error().code, errc::pool_exhausted);
    states.pop_back();
    EXPECT_EQ(pool.free_count(), 2u);
    const auto taken = pool.allocate(1);
    ASSERT_TRUE(taken);
    EXPECT_EQ(recurrent_state::make(pool).error().code, errc::pool_exhausted) << "one frame short";
    pool.release(*taken);
    EXPECT_TRUE(recurrent_state::make(pool));
}

TEST_F(recurrent_state_test, is_aligned_and_as_long_as_the_layout_says) {
    const auto state = *recurrent_state::make(pool);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(state->bytes().data()) % 64, 0u);
    EXPECT_EQ(state->bytes().size(), layout.state_bytes());
    EXPECT_EQ(state->frame_count(), 2u);
}

TEST_F(recurrent_state_test, memory_that_frames_have_left_free_goes_back_for_states) {
    const auto touched = pool.allocate(frames);
    ASSERT_TRUE(touched);
    pool.release(*touched);
    EXPECT_EQ(pool.budget().touched_bytes(), pool.budget().bytes());
    const auto state = *recurrent_state::make(pool);
    EXPECT_LE(pool.budget().touched_bytes(), pool.budget().bytes());
}

TEST_F(recurrent_state_test, a_conversation_needs_two_while_it_runs_and_one_at_rest) {
    const kv_layout dense = layout_of(0);
    EXPECT_EQ(dense.state_frames(), 0u);
    EXPECT_EQ(layout.frames_for(40, 8), dense.frames_for(40, 8) + 4);
    EXPECT_EQ(layout.frames_for(40, 0), dense.frames_for(40, 0) + 2);
    EXPECT_EQ(layout.frames_for(0, 0), 0u);
    EXPECT_EQ(layout.bytes_for(40), dense.bytes_for(40) + layout.state_bytes());
}

TEST_F(recurrent_state_test, a_running_sequence_swaps_two_and_leaves_what_it_shared) {
    live_state live(pool, nullptr);
    EXPECT_EQ(live.current(), nullptr);
    EXPECT_EQ(live.share(), nullptr);
    ASSERT_TRUE(live.reserve());
    const std::byte* first = live.next();
    live.advance();
    EXPECT_EQ(live.current(), first);
    ASSERT_TRUE(live.reserve());
    const std::byte* second = live.next();
    EXPECT_NE(second, first);
    live.advance();
    EXPECT_EQ(live.next(), first) << "swapped";
    EXPECT_EQ(pool.state_count(), 2u);

    const recurrent_ptr kept = live.share();
    EXPECT_EQ(kept->bytes().data(), second);
    live.advance();
    EXPECT_EQ(live.next(), nullptr) << "what is shared is not written again";
    ASSERT_TRUE(live.reserve());
    EXPECT_NE(live.next(), second);
    EXPECT_EQ(pool.state_count(), 3u);
}

// Goal: a step that fails leaves the state as it was. Method: what advance() does not follow.
TEST_F(recurrent_state_test, what_is_written_counts_only_from_advance_on) {
    const auto start = *recurrent_state::make(pool);
    start->bytes()[0] = std::byte{7};
    live_state live(pool, start);
    ASSERT_TRUE(live.reserve());
    *live.next() = std::byte{9};
    EXPECT_EQ(*live.current(), std::byte{7});
    live.drop_next();
    EXPECT_EQ(*live.current(), std::byte{7});
    EXPECT_EQ(pool.state_count(), 1u);
}

TEST(live_state, costs_nothing_where_the_layout_has_no_states) {
    const kv_layout layout = layout_of(0);
    block_pool pool(layout, layout.frame_bytes());
    live_state live(pool, nullptr);
    EXPECT_TRUE(live.reserve());
    live.advance();
    EXPECT_EQ(live.next(), nullptr);
    EXPECT_EQ(live.share(), nullptr);
    EXPECT_EQ(pool.state_count(), 0u);
}

TEST(count_kept_within, counts_places_up_to_and_with_the_limit) {
    const std::vector<kept_state> kept{{3}, {8}, {20}};
    EXPECT_EQ(count_kept_within(kept, 2), 0u);
    EXPECT_EQ(count_kept_within(kept, 3), 1u);
    EXPECT_EQ(count_kept_within(kept, 19), 2u);
    EXPECT_EQ(count_kept_within(kept, 20), 3u);
}

}  // namespace
}  // namespace semantic::storage

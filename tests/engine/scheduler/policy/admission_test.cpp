// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/admission.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace semantic::engine {
namespace {

constexpr chunk_policy policy{512, 4096, 2048, std::chrono::milliseconds(200)};

// Two layers; blocks of 16 tokens. With a window the second layer slides.
storage::kv_layout layout(int window = 0) {
    storage::kv_layer full{.kv_heads = 1, .k_dim = 64, .v_dim = 64};
    storage::kv_layer other = full;
    other.window = window;
    return storage::kv_layout({full, other}, {16, 64}, 16);
}

TEST(admission_frames, a_prompt_needs_a_block_of_every_layer_for_each_of_its_blocks) {
    struct row {
        int prompt, reused;
        std::size_t frames;
    };
    for (const row& each :
         std::vector<row>{{1, 0, 2}, {15, 0, 2}, {16, 0, 4}, {31, 0, 4}, {32, 0, 6}, {32, 31, 6}})
        EXPECT_EQ(frames_for_prompt(layout(), policy, each.prompt, each.reused), each.frames)
            << each.prompt << " tokens, the first token of the answer has its place too";
}

TEST(admission_frames, of_a_sliding_layer_only_what_window_and_chunk_reach_is_counted) {
    const auto sliding = layout(16);
    EXPECT_LT(frames_for_prompt(sliding, policy, 1600, 1599),
              frames_for_prompt(sliding, policy, 1600, 0));
    EXPECT_LT(frames_for_prompt(sliding, policy, 1600, 0),
              frames_for_prompt(layout(), policy, 1600, 0));
    EXPECT_EQ(frames_for_prompt(sliding, policy, 1600, 0), sliding.frames_for(1601, 512));
    EXPECT_EQ(frames_for_prompt(sliding, policy, 1600, 1590), sliding.frames_for(1601, 10));
}

TEST(admission_frames, a_sequence_is_promised_what_it_does_not_have_yet) {
    struct row {
        sequence_view sequence;
        std::size_t whole, needed;
    };
    for (const row& each : std::vector<row>{
             {{1, 0, 40, false}, 6, 6},   // nothing is computed yet
             {{1, 16, 24, false}, 6, 4},  // a block is
             {{1, 40, 1, true}, 6, 0},    // decodes inside its third block
             {{1, 47, 1, true}, 8, 2},    // the token after the next one begins a block
             {{1, 48, 1, true}, 8, 2},
         }) {
        EXPECT_EQ(frames_for_sequence(layout(), policy, each.sequence), each.whole)
            << each.sequence.position;
        EXPECT_EQ(frames_still_needed(layout(), policy, each.sequence), each.needed)
            << each.sequence.position;
    }
}

TEST(admission_frames, a_sequence_may_take_blocks_until_its_last_token) {
    const auto rest = [](const sequence_view& sequence, int tokens_most) {
        return frames_for_rest(layout(), policy, sequence, tokens_most);
    };
    const sequence_view decodes{1, 40, 1, true};
    EXPECT_EQ(rest(decodes, 48), 0u) << "its third block has room for them";
    EXPECT_EQ(rest(decodes, 49), 2u);
    EXPECT_EQ(rest(decodes, 41), 0u);
    EXPECT_EQ(rest({1, 0, 40, false}, 100), 14u) << "nothing is computed yet";
}

batch_load load_of(std::size_t running, std::size_t restoring, std::size_t preempted,
                   std::size_t waiting) {
    batch_load load;
    load.places = 4;
    load.running = running;
    load.restoring = restoring;
    load.preempted = preempted;
    load.waiting = waiting;
    return load;
}

TEST(next_candidate, places_go_to_preempted_sequences_and_then_to_those_that_wait) {
    struct row {
        batch_load load;
        candidate next;
    };
    for (const row& each : std::vector<row>{
             {load_of(0, 0, 0, 0), candidate::none},
             {load_of(0, 0, 0, 1), candidate::waiting},
             {load_of(0, 0, 1, 0), candidate::preempted},
             {load_of(0, 0, 1, 9), candidate::preempted},
             {load_of(3, 0, 0, 1), candidate::waiting},
             {load_of(4, 0, 0, 1), candidate::none},
             {load_of(4, 0, 1, 0), candidate::none},
             {load_of(2, 2, 1, 1), candidate::none},  // a prefix on its way has a place
             {load_of(2, 1, 0, 1), candidate::waiting},
         })
        EXPECT_EQ(next_candidate(each.load), each.next)
            << each.load.running << " run, " << each.load.restoring << " restore, "
            << each.load.preempted << " preempted, " << each.load.waiting << " wait";
}

TEST(frames_to_free, promises_are_kept_before_anybody_begins) {
    EXPECT_EQ(frames_to_free(candidate::waiting, 10, 6, layout()), 16u);
    EXPECT_EQ(frames_to_free(candidate::preempted, 10, 6, layout()), 18u) << "a block more";
}

TEST(decide_admission, table) {
    struct row {
        std::size_t running, restoring;
        bool transient_holds, fits, released;
        admission decided;
    };
    for (const row& each : std::vector<row>{
             // Who fits begins, whatever else there is.
             {0, 0, false, true, false, admission::admit},
             {3, 0, true, true, true, admission::admit},
             // A request that does not fit with others waits for their end, and no sequence gives
             // its blocks back.
             {1, 0, false, false, false, admission::wait},
             {1, 0, false, false, true, admission::wait},
             {0, 1, false, false, false, admission::wait},
             {0, 1, true, false, true, admission::wait},
             // Alone, blocks of others that wait come first, then those that a save holds ...
             {0, 0, false, false, false, admission::release_waiting},
             {0, 0, true, false, false, admission::release_waiting},
             {0, 0, true, false, true, admission::wait},
             // ... and when nothing can come free any more it tries: the count may be too high.
             {0, 0, false, false, true, admission::admit},
         }) {
        batch_load load = load_of(each.running, each.restoring, 0, 1);
        load.transient_holds = each.transient_holds;
        EXPECT_EQ(decide_admission(load, each.fits, each.released), each.decided)
            << each.running << " run, " << each.restoring << " restore, holds "
            << each.transient_holds << ", fits " << each.fits << ", released " << each.released;
    }
}

TEST(decide_relief, table) {
    struct row {
        std::size_t running, restoring;
        bool transient_holds, released, arriving;
        relief decided;
    };
    for (const row& each : std::vector<row>{
             // A prefix on its way leaves blocks, or begins: that is seen when it has come.
             {1, 1, false, false, false, relief::wait},
             {2, 1, false, true, false, relief::wait},
             {0, 1, false, true, false, relief::wait},
             // The oldest goes on at the cost of the youngest, whatever else holds blocks.
             {2, 0, false, false, false, relief::preempt_youngest},
             {4, 0, true, true, true, relief::preempt_youngest},
             // The last one has the blocks of all that wait ...
             {1, 0, false, false, false, relief::release_waiting},
             {1, 0, true, false, true, relief::release_waiting},
             // ... and of what holds some for a moment ...
             {1, 0, true, true, false, relief::wait},
             {1, 0, false, true, true, relief::wait},
             // ... and ends with what it has when there is no more.
             {1, 0, false, true, false, relief::end_answer},
         }) {
        batch_load load = load_of(each.running, each.restoring, 0, 0);
        load.transient_holds = each.transient_holds;
        EXPECT_EQ(decide_relief(load, each.released, each.arriving), each.decided)
            << each.running << " run, " << each.restoring << " restore, holds "
            << each.transient_holds << ", released " << each.released << ", arriving "
            << each.arriving;
    }
}

TEST(decide_admission, who_does_not_fit_waits_for_other_models_that_are_at_work) {
    batch_load load = load_of(0, 0, 0, 1);
    load.others_busy = true;
    EXPECT_EQ(decide_admission(load, true, false), admission::admit);
    EXPECT_EQ(decide_admission(load, false, false), admission::release_waiting);
    EXPECT_EQ(decide_admission(load, false, true), admission::wait);
    load.others_busy = false;
    EXPECT_EQ(decide_admission(load, false, true), admission::admit) << "alone it tries";
}

TEST(decide_relief, of_several_models_that_are_short_of_frames_one_goes_on) {
    batch_load load = load_of(1, 0, 0, 0);
    load.others_busy = true;
    EXPECT_EQ(decide_relief(load, true, false), relief::preempt_youngest);
    load.has_turn = true;
    EXPECT_EQ(decide_relief(load, true, false), relief::wait);
    EXPECT_EQ(decide_relief(load, false, false), relief::release_waiting);
    load.running = 2;
    EXPECT_EQ(decide_relief(load, true, false), relief::preempt_youngest);
    load = load_of(1, 0, 0, 0);
    EXPECT_EQ(decide_relief(load, true, false), relief::end_answer);
}

TEST(may_start_choice, a_request_has_one_place_while_others_wait) {
    EXPECT_TRUE(may_start_choice(load_of(3, 0, 0, 0), true));
    EXPECT_FALSE(may_start_choice(load_of(4, 0, 0, 0), true));
    EXPECT_FALSE(may_start_choice(load_of(3, 1, 0, 0), false));
    EXPECT_FALSE(may_start_choice(load_of(3, 0, 0, 1), true));
    EXPECT_TRUE(may_start_choice(load_of(3, 0, 0, 1), false));
    EXPECT_FALSE(may_start_choice(load_of(0, 0, 1, 0), false)) << "preempted sequences come first";
}

TEST(may_start_early, only_where_nothing_else_runs_or_is_about_to) {
    EXPECT_TRUE(may_start_early(load_of(0, 1, 0, 0)));
    EXPECT_TRUE(may_start_early(load_of(0, 2, 0, 3)));
    EXPECT_FALSE(may_start_early(load_of(1, 1, 0, 0)));
    EXPECT_FALSE(may_start_early(load_of(0, 1, 1, 0)));
}

}  // namespace
}  // namespace semantic::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/sequence_set.hpp"

#include <gtest/gtest.h>

#include "storage/pool/prefix_arrival.hpp"
#include "tests/engine/scheduler/bare_sequences.hpp"

namespace semantic::engine {
namespace {

class sequence_set_ : public tests::bare_sequences {
  protected:
    static constexpr int tokens = 5;  // of every prompt

    sequence& run(request_id id, int choice = 0) { return add_computed(id, tokens, choice); }
    sequence& begin_early(request_id id) {
        set_.add_early(make(id, tokens),
                       std::make_shared<storage::prefix_arrival>(std::vector<int>{1}));
        return *set_.running().back();
    }
};

TEST_F(sequence_set_, the_youngest_is_the_last_choice_of_the_last_request_whenever_it_began) {
    sequence& late = run(7, 0);
    sequence& last_choice = run(7, 2);
    run(7, 1);
    run(3, 5);  // began last, but its request came first
    EXPECT_EQ(&set_.youngest_running(), &last_choice);
    set_.preempt(last_choice);
    set_.preempt(set_.youngest_running());
    EXPECT_EQ(&set_.youngest_running(), &late);
}

TEST_F(sequence_set_,
       preempted_sequences_give_their_frames_back_and_go_on_in_the_order_of_arrival) {
    sequence& second = run(2);
    sequence& first = run(1);
    sequence& choice = run(1, 1);
    const std::size_t held = pool_.held_count();
    for (sequence* each : {&second, &choice, &first}) set_.preempt(*each);
    EXPECT_GT(held, 0u);
    EXPECT_EQ(pool_.held_count(), 0u);
    EXPECT_EQ(second.view().pending, tokens) << "all that is known runs again";
    for (sequence* expected : {&first, &choice, &second}) {
        sequence& oldest = set_.oldest_preempted();
        EXPECT_EQ(&oldest, expected);
        set_.resume(oldest);
        EXPECT_EQ(set_.running().back().get(), expected);
    }
    EXPECT_TRUE(set_.preempted().empty());
}

TEST_F(sequence_set_, what_has_ended_stays_for_the_loops_under_way_and_leaves_from_both_places) {
    sequence& running = run(1);
    sequence& waiting = run(2);
    run(3);
    set_.preempt(waiting);
    set_.end(running);
    set_.end(waiting);
    set_.end(waiting);
    EXPECT_TRUE(set_.runs(works_[1]));
    EXPECT_TRUE(set_.has_ended(running));
    set_.remove_ended();
    EXPECT_FALSE(set_.runs(works_[1]));
    EXPECT_TRUE(set_.runs(works_[3]));
    EXPECT_TRUE(set_.preempted().empty());
    set_.remove_ended();
    EXPECT_EQ(set_.running().size(), 1u);
}

TEST_F(sequence_set_, an_early_start_that_is_revoked_has_never_been) {
    begin_early(4);
    EXPECT_EQ(set_.revoke_early(), works_[4]);
    EXPECT_EQ(set_.early(), nullptr);
    EXPECT_TRUE(set_.empty());
    EXPECT_EQ(pool_.held_count(), 0u);
}

TEST_F(sequence_set_, an_early_start_is_over_when_it_is_confirmed_and_when_its_sequence_ends) {
    sequence& early = begin_early(1);
    EXPECT_TRUE(set_.is_early(early));
    set_.confirm_early();
    EXPECT_FALSE(set_.is_early(early));
    EXPECT_TRUE(set_.runs(works_[1]));
    set_.end(early);
    set_.remove_ended();

    sequence& next = begin_early(2);
    set_.end(next);
    EXPECT_EQ(set_.early(), nullptr) << "nothing is to be revoked any more";
    set_.remove_ended();
    EXPECT_TRUE(set_.empty());
}

}  // namespace
}  // namespace semantic::engine

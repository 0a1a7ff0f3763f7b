// SPDX-License-Identifier: Apache-2.0
#include "server/engines/engine_slot.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/scripted_engine.hpp"

namespace semantic::server {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A slot that is ready with model 0.
class engine_slot_test : public ::testing::Test {
  protected:
    engine_slot_test() {
        slot_.step(slot_asked{0});
        slot_.put(std::make_unique<tests::scripted_engine>());
        slot_.step(slot_done{});
    }
    void step_to(slot_phase phase) {
        while (slot_.state().phase != phase)
            ASSERT_TRUE(slot_.step(slot_.state().phase == slot_phase::ready
                                       ? slot_event(slot_asked{1})
                                       : slot_event(slot_done{})));
    }
    engine_slot slot_;
};

TEST_F(engine_slot_test, gives_leases_when_ready_and_looks_while_an_engine_is_there) {
    engine_slot empty;
    EXPECT_FALSE(empty.lease());
    EXPECT_FALSE(empty.look());
    EXPECT_EQ(slot_.lease()->info().id, "scripted");
    EXPECT_EQ(slot_.lease().model(), 0u);
    step_to(slot_phase::draining);
    EXPECT_FALSE(slot_.lease());
    EXPECT_TRUE(slot_.look());
    step_to(slot_phase::saving);
    EXPECT_TRUE(slot_.look());
    step_to(slot_phase::releasing);
    EXPECT_FALSE(slot_.look());
}

TEST_F(engine_slot_test, is_free_when_the_last_copy_of_the_last_lease_is_back) {
    auto first = std::make_unique<engine_lease>(slot_.lease());
    auto copy = std::make_unique<engine_lease>(*first);
    auto second = std::make_unique<engine_lease>(slot_.lease());
    EXPECT_EQ(slot_.leases(), 2u);
    first.reset();
    EXPECT_EQ(slot_.leases(), 2u);
    copy.reset();
    EXPECT_EQ(slot_.leases(), 1u);
    EXPECT_FALSE(slot_.wait_for_leases(clock::now() + milliseconds(20)));
    std::thread holder([&] {
        std::this_thread::sleep_for(milliseconds(20));
        second.reset();
    });
    EXPECT_TRUE(slot_.wait_for_leases(clock::now() + std::chrono::seconds(10)));
    holder.join();
}

TEST_F(engine_slot_test, a_wait_for_leases_ends_early_when_there_is_hurry) {
    const engine_lease held = slot_.lease();
    std::thread stopper([&] {
        std::this_thread::sleep_for(milliseconds(20));
        slot_.hurry(clock::now());
    });
    const auto begun = clock::now();
    EXPECT_FALSE(slot_.wait_for_leases(begun + std::chrono::seconds(60)));
    EXPECT_LT(clock::now() - begun, std::chrono::seconds(10));
    stopper.join();
}

TEST_F(engine_slot_test, asks_for_leases_that_are_out_and_for_no_others) {
    int first = 0;
    int second = 0;
    {
        const engine_lease gone = slot_.lease();
        gone.when_cut([&] { ++first; });
    }
    engine_lease held = slot_.lease();
    held.when_cut([&] {
        ++second;
        held = {};
    });
    slot_.cut_leases();
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 1);
    EXPECT_EQ(slot_.leases(), 0u);
    engine_lease().when_cut([] {});  // an empty one has nothing to notify
}

TEST_F(engine_slot_test, keeps_every_state_of_a_change_until_the_next_one_begins) {
    step_to(slot_phase::draining);
    EXPECT_EQ(slot_.path().size(), 1u);
    step_to(slot_phase::releasing);
    const engine_lease none = slot_.lease();
    EXPECT_FALSE(none);
    ASSERT_NE(slot_.take(), nullptr);
    step_to(slot_phase::loading);
    slot_.put(std::make_unique<tests::scripted_engine>());
    step_to(slot_phase::ready);
    std::vector<slot_phase> phases;
    for (const slot_state& each : slot_.path()) phases.push_back(each.phase);
    const std::vector<slot_phase> all{slot_phase::draining,  slot_phase::saving,
                                      slot_phase::releasing, slot_phase::loading,
                                      slot_phase::verifying, slot_phase::ready};
    EXPECT_EQ(phases, all);
    slot_.step(slot_asked{0});
    EXPECT_EQ(slot_.path().size(), 1u);
}

TEST_F(engine_slot_test, takes_no_step_once_it_is_closed) {
    step_to(slot_phase::saving);
    EXPECT_EQ(slot_.close(), slot_phase::saving);
    EXPECT_FALSE(slot_.step(slot_done{}));
    EXPECT_EQ(slot_.state().phase, slot_phase::saving);
    EXPECT_NE(slot_.own(), nullptr);
}

}  // namespace
}  // namespace semantic::server

// SPDX-License-Identifier: Apache-2.0
#include "server/engines/slot_state.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::server {
namespace {

using enum slot_phase;
using number = std::optional<std::size_t>;

constexpr std::size_t a = 0;
constexpr std::size_t b = 1;

slot_state state(slot_phase phase, number model = {}, number target = {}, number former = {},
                 std::string why = {}, bool is_start = false) {
    return {phase, model, target, former, is_start, std::move(why)};
}

struct transition {
    slot_state from;
    slot_event by;
    std::optional<slot_state> to;
};

void expect(const std::vector<transition>& table) {
    for (const transition& each : table)
        EXPECT_EQ(next_state(each.from, each.by), each.to)
            << to_string(each.from.phase) << " by event " << each.by.index();
}

TEST(slot_state, a_start_goes_from_idle_to_ready_and_needs_no_proof) {
    expect({{state(idle), slot_asked{b}, state(loading, b, {}, {}, {}, true)},
            {state(loading, b, {}, {}, {}, true), slot_done{}, state(ready, b)},
            {state(loading, b, {}, {}, {}, true), slot_broke{"no file"},
             state(failed, {}, {}, {}, "no file")}});
}

TEST(slot_state, an_exchange_takes_every_phase_in_order) {
    expect({{state(ready, a), slot_asked{b}, state(draining, a, b)},
            {state(draining, a, b), slot_done{}, state(saving, a, b)},
            {state(saving, a, b), slot_done{}, state(releasing, a, b)},
            {state(releasing, a, b), slot_done{}, state(loading, b, {}, a)},
            {state(loading, b, {}, a), slot_done{}, state(verifying, b, {}, a)},
            {state(verifying, b, {}, a), slot_done{}, state(ready, b)}});
}

TEST(slot_state, what_breaks_in_loading_or_verifying_brings_the_former_model_back_with_proof) {
    expect({{state(loading, b, {}, a), slot_broke{"torn"}, state(loading, a, {}, {}, "torn")},
            {state(verifying, b, {}, a), slot_broke{"mute"}, state(releasing, b, a, {}, "mute")},
            {state(releasing, b, a, {}, "mute"), slot_done{}, state(loading, a, {}, {}, "mute")},
            {state(loading, a, {}, {}, "torn"), slot_done{}, state(verifying, a, {}, {}, "torn")},
            {state(verifying, a, {}, {}, "torn"), slot_done{}, state(ready, a, {}, {}, "torn")}});
}

TEST(slot_state, when_the_former_model_breaks_too_the_slot_has_failed_and_says_both) {
    expect({{state(loading, a, {}, {}, "torn"), slot_broke{"gone"},
             state(failed, {}, {}, {}, "torn; gone")},
            {state(verifying, a, {}, {}, "torn"), slot_broke{"mute"},
             state(releasing, a, {}, {}, "torn; mute")},
            {state(releasing, a, {}, {}, "torn; mute"), slot_done{},
             state(failed, {}, {}, {}, "torn; mute")},
            {state(failed, {}, {}, {}, "torn; gone"), slot_asked{a}, state(loading, a)}});
}

TEST(slot_state, what_breaks_before_the_engine_is_gone_leaves_the_model_where_it_is) {
    expect({{state(saving, a, b), slot_broke{"disk full"}, state(ready, a, {}, {}, "disk full")},
            {state(releasing, a, b), slot_broke{"held"}, state(ready, a, {}, {}, "held")},
            {state(ready, a, {}, {}, "held"), slot_asked{b}, state(draining, a, b)},
            {state(releasing, b, a, {}, "mute"), slot_broke{"held"},
             state(releasing, b, a, {}, "mute")}});
}

TEST(slot_state, a_slot_that_is_asked_for_no_model_saves_and_is_empty) {
    expect({{state(ready, a), slot_asked{}, state(draining, a)},
            {state(draining, a), slot_done{}, state(saving, a)},
            {state(saving, a), slot_broke{"disk full"}, state(ready, a, {}, {}, "disk full")},
            {state(saving, a), slot_done{}, state(releasing, a)},
            {state(releasing, a), slot_done{}, state(empty)},
            {state(empty), slot_asked{}, {}},
            {state(empty), slot_asked{b}, state(loading, b)},
            {state(loading, b), slot_done{}, state(verifying, b)},
            {state(loading, b), slot_broke{"torn"}, state(failed, {}, {}, {}, "torn")},
            {state(failed, {}, {}, {}, "torn"), slot_asked{}, {}},
            {state(idle), slot_asked{}, {}}});
}

TEST(slot_state, an_event_without_a_place_changes_nothing) {
    expect({{state(ready, a), slot_asked{a}, {}},
            {state(ready, a), slot_done{}, {}},
            {state(ready, a), slot_broke{"x"}, {}},
            {state(idle), slot_done{}, {}},
            {state(idle), slot_broke{"x"}, {}},
            {state(failed), slot_done{}, {}},
            {state(failed), slot_broke{"x"}, {}},
            {state(draining, a, b), slot_broke{"x"}, {}},
            {state(draining, a, b), slot_asked{a}, {}},
            {state(saving, a, b), slot_asked{b}, {}},
            {state(releasing, a, b), slot_asked{b}, {}},
            {state(loading, b, {}, a), slot_asked{a}, {}},
            {state(verifying, b, {}, a), slot_asked{a}, {}}});
}

TEST(slot_state, every_way_through_ends_in_a_state_in_which_nothing_goes_on_by_itself) {
    // From an exchange on, whatever succeeds or breaks at each step.
    for (unsigned outcomes = 0; outcomes < 256; ++outcomes) {
        slot_state now = state(ready, a);
        now = *next_state(now, slot_asked{b});
        int steps = 0;
        for (; !is_settled(now.phase); ++steps) {
            ASSERT_LT(steps, 16) << outcomes;
            const bool breaks =
                steps < 8 && ((outcomes >> steps) & 1u) != 0 && now.phase != draining;
            const slot_event event = breaks ? slot_event(slot_broke{"x"}) : slot_event(slot_done{});
            const auto next = next_state(now, event);
            ASSERT_TRUE(next) << to_string(now.phase);
            now = *next;
        }
        EXPECT_EQ(now.phase == failed, !now.model) << outcomes;
        EXPECT_EQ(now.model == b, now.why.empty()) << outcomes;
        EXPECT_FALSE(now.target || now.former) << outcomes;
    }
}

}  // namespace
}  // namespace semantic::server

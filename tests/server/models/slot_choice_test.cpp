// SPDX-License-Identifier: Apache-2.0
#include "server/models/slot_choice.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::server {
namespace {

using enum slot_phase;
using time = std::chrono::steady_clock::time_point;

time at(int second) { return time(std::chrono::seconds(second)); }

slot_view idle_since(int second) { return {ready, at(second), at(0)}; }
slot_view busy_with_model_since(int second) { return {ready, std::nullopt, at(second)}; }

TEST(slot_choice, table) {
    struct row {
        const char* why;
        std::vector<slot_view> slots;
        bool may_add;
        std::optional<std::size_t> chosen;
    };
    const std::optional<std::size_t> none;
    for (const row& each : std::vector<row>{
             {"the only one", {idle_since(5)}, true, 0},
             {"the only one, at work", {busy_with_model_since(5)}, true, 0},
             {"the only one, without a model", {{empty}}, false, 0},
             {"where a load has failed", {{failed}}, true, 0},
             {"a free one", {idle_since(1), {empty}, {empty}}, true, 1},
             {"a free one although another is idle for longer", {idle_since(9), {failed}}, true, 1},
             {"no memory for one more", {idle_since(1), {empty}}, false, 0},
             {"no memory for one more, all at work", {busy_with_model_since(1), {empty}}, false, 0},
             {"idle for longest", {idle_since(7), idle_since(3), idle_since(5)}, true, 1},
             {"idle before at work", {busy_with_model_since(1), idle_since(9)}, true, 1},
             {"all at work: there for longest",
              {busy_with_model_since(4), busy_with_model_since(2)},
              true,
              1},
             {"equal: the first", {idle_since(3), idle_since(3)}, true, 0},
             {"one is loading", {idle_since(1), {loading}, {empty}}, true, none},
             {"one is draining", {{draining}, idle_since(1)}, true, none},
             {"one is verifying", {{empty}, {verifying}}, true, none},
         })
        EXPECT_EQ(choose_slot(each.slots, each.may_add), each.chosen) << each.why;
}

}  // namespace
}  // namespace semantic::server

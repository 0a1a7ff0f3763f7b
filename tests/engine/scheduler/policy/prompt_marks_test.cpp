// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/prompt_marks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace semantic::engine {
namespace {

using tokens = std::vector<storage::token_id>;

int common_of(const tokens& a, const tokens& b) {
    return prompt_marks(a).count_common(a, prompt_marks(b), b);
}

tokens counted(int count) {
    tokens all;
    for (int i = 0; i < count; ++i) all.push_back(i);
    return all;
}

TEST(prompt_marks, counts_to_the_token_from_one_grain_on) {
    const tokens whole = counted(1000);
    for (int same : {0, 1, 63, 64, 65, 127, 128, 500, 999}) {
        tokens other = whole;
        other[static_cast<std::size_t>(same)] = -1;
        EXPECT_EQ(common_of(whole, other), same < prompt_marks::grain ? 0 : same) << same;
        EXPECT_EQ(common_of(other, whole), same < prompt_marks::grain ? 0 : same) << same;
    }
    EXPECT_EQ(common_of(whole, whole), 1000);
}

TEST(prompt_marks, a_shorter_prompt_is_common_as_a_whole) {
    EXPECT_EQ(common_of(counted(100), counted(1000)), 100);
    EXPECT_EQ(common_of(counted(63), counted(1000)), 0);
    EXPECT_EQ(common_of({}, counted(1000)), 0);
    EXPECT_EQ(common_of({}, {}), 0);
}

TEST(prompt_marks, what_is_the_same_again_after_a_difference_is_not_counted) {
    tokens other = counted(1000);
    other[200] = -1;
    EXPECT_EQ(common_of(counted(1000), other), 200);
}

TEST(prompt_marks, agrees_with_comparing_token_by_token) {
    std::mt19937 random(7);
    for (int i = 0; i < 2000; ++i) {
        tokens a, b;
        const auto draw = [&](tokens& to, std::size_t count) {
            while (to.size() < count) to.push_back(static_cast<int>(random() % 3));
        };
        draw(a, random() % 400);
        b.assign(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(random() % (a.size() + 1)));
        draw(b, random() % 400);
        const int exact = static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
        ASSERT_EQ(common_of(a, b), exact < prompt_marks::grain ? 0 : exact);
    }
}

}  // namespace
}  // namespace semantic::engine

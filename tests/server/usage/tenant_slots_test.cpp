// SPDX-License-Identifier: Apache-2.0
// Slots that clients share: none of them has all.

#include "server/usage/tenant_slots.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace semantic::server {
namespace {

using held_slots = std::vector<std::unique_ptr<tenant_slots::slot>>;

TEST(tenant_slots, a_tenant_has_its_share_and_no_more_and_the_rest_is_for_others) {
    tenant_slots slots(8, tenant_share(8));
    held_slots held;
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(held.emplace_back(slots.take("a"))) << i;
    EXPECT_FALSE(slots.take("a"));
    ASSERT_TRUE(held.emplace_back(slots.take("b")));
    ASSERT_TRUE(held.emplace_back(slots.take("c")));
    EXPECT_FALSE(slots.take("d")) << "all are taken";
    held.erase(held.begin());
    EXPECT_EQ(slots.count(), 7u);
    EXPECT_TRUE(slots.take("a"));
    EXPECT_TRUE(slots.take("d"));
}

TEST(tenant_slots, an_evictable_slot_gives_way_the_oldest_first) {
    tenant_slots slots(4, 3);
    std::vector<int> told;
    held_slots held;
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(held.emplace_back(slots.take("", [&told, i] { told.push_back(i); })));
    ASSERT_TRUE(held.emplace_back(slots.take("", [] {}))) << "in place of its own oldest";
    EXPECT_EQ(told, (std::vector<int>{0}));
    ASSERT_TRUE(held.emplace_back(slots.take("a")));
    ASSERT_TRUE(held.emplace_back(slots.take("a"))) << "in place of another's";
    EXPECT_EQ(told, (std::vector<int>{0, 1}));
    EXPECT_EQ(slots.count(), 4u);
    held.clear();
    EXPECT_EQ(slots.count(), 0u);
}

TEST(tenant_slots, a_tenant_with_its_share_takes_nobody_elses_slot) {
    tenant_slots slots(4, 2);
    bool told = false;
    const auto anonymous = slots.take("", [&] { told = true; });
    const auto one = slots.take("a"), two = slots.take("a");
    EXPECT_FALSE(slots.take("a"));
    EXPECT_FALSE(told);
}

TEST(tenant_slots, a_share_is_three_quarters) {
    EXPECT_EQ(tenant_share(256), 192u);
    EXPECT_EQ(tenant_share(64), 48u);
    EXPECT_EQ(tenant_share(16), 12u);
    EXPECT_EQ(tenant_share(2), 2u);
    EXPECT_EQ(tenant_share(1), 1u);
}

}  // namespace
}  // namespace semantic::server

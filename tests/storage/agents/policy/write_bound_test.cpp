// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/policy/write_bound.hpp"

#include <gtest/gtest.h>

namespace semantic::storage {
namespace {

using std::chrono::hours;

const write_bound::clock::time_point noon{hours(24 * 10 + 12)};

TEST(write_bound, a_day_takes_what_it_may_and_no_byte_more) {
    write_bound bound;
    bound.set_limits({100, 0});
    EXPECT_FALSE(bound.reserve(60, 0, noon));
    const auto refused = bound.reserve(41, 0, noon);
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->find("--disk-writes-per-day-mb allows 100"), std::string::npos) << *refused;
    EXPECT_NE(refused->find("41 bytes"), std::string::npos) << *refused;
    EXPECT_EQ(bound.bytes_of_day(noon), 60u) << "what is refused is not counted";
    EXPECT_FALSE(bound.reserve(40, 0, noon));
    EXPECT_TRUE(bound.reserve(1, 0, noon));
    EXPECT_TRUE(bound.reserve(1, 0, noon + hours(11)));
    EXPECT_FALSE(bound.reserve(100, 0, noon + hours(12))) << "the next day";
    EXPECT_FALSE(bound.reserve(0, 0, noon + hours(12)));
    EXPECT_TRUE(bound.reserve(1, 0, noon)) << "a clock that is set back begins no day";
}

TEST(write_bound, what_was_reserved_and_not_written_is_free_again) {
    write_bound bound;
    bound.set_limits({100, 0});
    EXPECT_FALSE(bound.reserve(100, 0, noon));
    bound.settle(100, 30);
    EXPECT_EQ(bound.bytes_of_day(noon), 30u);
    EXPECT_FALSE(bound.reserve(70, 0, noon));
    // A save that began yesterday takes nothing of today but what it wrote.
    EXPECT_EQ(bound.bytes_of_day(noon + hours(24)), 0u);
    bound.settle(70, 70);
    EXPECT_EQ(bound.bytes_of_day(noon + hours(24)), 70u);
}

TEST(write_bound, a_turn_takes_what_it_may_and_no_byte_more) {
    write_bound bound;
    bound.set_limits({0, 10});
    EXPECT_FALSE(bound.reserve(10, 0, noon));
    EXPECT_TRUE(bound.reserve(11, 0, noon));
    EXPECT_FALSE(bound.reserve(3, 7, noon));
    const auto refused = bound.reserve(4, 7, noon);
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->find("--disk-writes-per-turn-mb allows 10"), std::string::npos);
    EXPECT_TRUE(bound.reserve(0, 11, noon)) << "more was written than may be now";
}

TEST(write_bound, without_limits_takes_everything) {
    write_bound bound;
    EXPECT_FALSE(bound.reserve(UINT64_MAX / 2, UINT64_MAX / 2, noon));
}

TEST(written_note, has_one_length_and_reads_back) {
    for (const std::uint64_t each : {std::uint64_t{0}, std::uint64_t{7}, UINT64_MAX}) {
        EXPECT_EQ(encode_written(each).size(), 20u);
        EXPECT_EQ(decode_written(encode_written(each)), each);
    }
    for (const char* each : {"", "7", "0000000000000000000x", "99999999999999999999"})
        EXPECT_EQ(decode_written(each), 0u) << each;
}

}  // namespace
}  // namespace semantic::storage

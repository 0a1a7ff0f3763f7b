// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/disk_quota.hpp"

#include <gtest/gtest.h>

#include "storage/agents/policy/tier_policy.hpp"
#include "storage/disk/removal_trust.hpp"

namespace semantic::storage {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

std::uint64_t missing(const disk_state& disk, std::uint64_t wanted,
                      disk_use use = disk_use::memory) {
    return shortage(disk, use, wanted, bytes_to_leave_free(disk)).missing_bytes();
}

TEST(disk_quota, default_is_a_tenth_of_the_file_system_and_at_most_64_gib) {
    EXPECT_EQ(default_disk_budget(100 * gib), 10 * gib);
    EXPECT_EQ(default_disk_budget(640 * gib), 64 * gib);
    EXPECT_EQ(default_disk_budget(641 * gib), 64 * gib);
}

TEST(disk_quota, what_fits_exactly_misses_nothing_and_one_byte_more_misses_one) {
    const disk_state disk{600, 100, 1000, {100000, 100000}};
    EXPECT_EQ(missing(disk, 300), 0u);
    EXPECT_EQ(missing(disk, 301), 1u);
}

TEST(disk_quota, a_twentieth_of_the_file_system_stays_free) {
    const disk_state disk{0, 100, 1000000, {10000, 1000}};
    EXPECT_EQ(missing(disk, 400), 0u);
    EXPECT_EQ(missing(disk, 401), 1u);
}

TEST(disk_quota, what_others_have_taken_of_the_twentieth_is_not_made_good_by_removing) {
    const disk_state disk{0, 0, 1000000, {10000, 300}};
    EXPECT_EQ(missing(disk, 0), 0u);
    EXPECT_EQ(missing(disk, 50), 50u) << "what is written takes no more of it";
    EXPECT_EQ(
        shortage({0, 0, 1000000, {10000, 350}}, disk_use::memory, 50, bytes_to_leave_free(disk))
            .missing_bytes(),
        0u)
        << "once as much was removed";
    EXPECT_EQ(missing({0, 100, 1000000, {10000, 300}}, 50), 50u) << "others' are made room for";
}

TEST(disk_quota, records_have_a_quarter_of_the_budget_and_at_most_4_gib) {
    EXPECT_EQ(default_record_budget(8 * gib), 2 * gib);
    EXPECT_EQ(default_record_budget(16 * gib), 4 * gib);
    EXPECT_EQ(default_record_budget(64 * gib), 4 * gib);
}

TEST(disk_quota, memories_leave_the_share_of_records_free_and_records_may_fill_it) {
    disk_state disk{750, 0, 1000, {100000, 100000}};
    disk.record_budget_bytes = 250;
    EXPECT_EQ(missing(disk, 0), 0u);
    EXPECT_EQ(missing(disk, 1), 1u);
    EXPECT_EQ(missing(disk, 250, disk_use::record), 0u);
    EXPECT_EQ(missing(disk, 251, disk_use::record), 1u);
    disk.held_bytes = 1000;
    disk.record_bytes = 250;
    EXPECT_EQ(missing(disk, 0), 0u) << "what records hold is no memory's";
    EXPECT_EQ(missing(disk, 1), 1u);
}

TEST(disk_quota, an_upload_takes_what_is_free_and_a_save_does_not_count_it) {
    disk_state disk{600, 0, 1000, {100000, 100000}};
    disk.upload_bytes = 300;
    EXPECT_EQ(missing(disk, 100, disk_use::upload), 0u);
    EXPECT_EQ(missing(disk, 101, disk_use::upload), 1u);
    EXPECT_EQ(missing(disk, 400), 0u);
    EXPECT_EQ(missing(disk, 401), 1u);
}

TEST(removal_trust, a_removal_in_vain_is_not_repeated_until_room_came_or_a_while_has_passed) {
    const removal_trust::clock::time_point start{};
    const auto wait = removal_trust::first_wait;
    removal_trust trust;
    const disk_space full{1000000, 0, 100, 0};
    const removal_trust::removal of_bytes{full, 5000, {}, 9000};
    EXPECT_TRUE(trust.may_help(full, start));
    trust.note_in_vain(of_bytes, start);
    EXPECT_FALSE(trust.may_help(full, start));
    EXPECT_FALSE(trust.may_help({1000000, 4999, 100, 90}, start));
    EXPECT_FALSE(trust.may_help(full, start + wait - std::chrono::seconds(1)));
    EXPECT_TRUE(trust.may_help(full, start + wait));
    trust.note_in_vain(of_bytes, start);
    EXPECT_FALSE(trust.may_help(full, start + wait)) << "it has doubled";
    EXPECT_TRUE(trust.may_help(full, start + 2 * wait));
    trust.note_written(8999);
    EXPECT_FALSE(trust.may_help(full, start));
    trust.note_written(9000);
    EXPECT_TRUE(trust.may_help(full, start));
    trust.note_in_vain(of_bytes, start);
    EXPECT_TRUE(trust.may_help({1000000, 5000, 100, 0}, start)) << "it gives what it took later";
    EXPECT_TRUE(trust.may_help(full, start));
    trust.note_in_vain({full, {}, 1, 9000}, start);
    EXPECT_FALSE(trust.may_help({1000000, 500000, 100, 0}, start)) << "no inode";
    EXPECT_TRUE(trust.may_help({1000000, 0, 100, 1}, start));
    trust.note_in_vain({full, {}, {}, 9000}, start);
    EXPECT_FALSE(trust.may_help({1000000, 500000, 100, 50}, start)) << "a quota shows nowhere";
}

TEST(removal_trust, waits_six_hours_at_most) {
    const removal_trust::clock::time_point start{};
    removal_trust trust;
    for (int i = 0; i < 40; ++i) trust.note_in_vain({}, start);
    EXPECT_FALSE(trust.may_help({}, start + removal_trust::longest_wait - std::chrono::seconds(1)));
    EXPECT_TRUE(trust.may_help({}, start + removal_trust::longest_wait));
}

TEST(disk_quota, the_longer_unused_goes_first_and_the_costlier_to_compute_last) {
    using std::chrono::seconds;
    EXPECT_GT(dispensability(seconds(20), 100), dispensability(seconds(10), 100));
    EXPECT_GT(dispensability(seconds(10), 100), dispensability(seconds(10), 16384));
    EXPECT_GT(dispensability(seconds(100), 16384), dispensability(seconds(10), 100));
    EXPECT_EQ(dispensability(seconds(-5), 100), 0);  // a clock that was set back
}

}  // namespace
}  // namespace semantic::storage

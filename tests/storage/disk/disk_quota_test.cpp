#include "storage/disk/disk_quota.hpp"

#include <gtest/gtest.h>

#include "storage/agents/tier_policy.hpp"

namespace semantic::storage {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(disk_quota, default_is_a_tenth_of_the_file_system_and_at_most_64_gib) {
    EXPECT_EQ(default_disk_budget(100 * gib), 10 * gib);
    EXPECT_EQ(default_disk_budget(640 * gib), 64 * gib);
    EXPECT_EQ(default_disk_budget(641 * gib), 64 * gib);
}

TEST(disk_quota, what_fits_exactly_misses_nothing_and_one_byte_more_misses_one) {
    const disk_state disk{600, 100, 1000, {100000, 100000}};
    EXPECT_EQ(missing_bytes(disk, 300), 0u);
    EXPECT_EQ(missing_bytes(disk, 301), 1u);
}

TEST(disk_quota, a_twentieth_of_the_file_system_stays_free) {
    const disk_state disk{0, 100, 1000000, {10000, 1000}};
    EXPECT_EQ(missing_bytes(disk, 400), 0u);
    EXPECT_EQ(missing_bytes(disk, 401), 1u);
    EXPECT_EQ(missing_bytes({0, 0, 1000000, {10000, 300}}, 0), 200u);
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

#include "server/models/client_memory.hpp"

#include <gtest/gtest.h>

namespace semantic::server {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

TEST(client_memory, of_a_server_without_a_limit_is_as_large_as_it_gets) {
    const client_memory all = client_memory::choose(0);
    EXPECT_EQ(all.sessions.all_bytes, 256 * mib);
    EXPECT_EQ(all.sessions.tenant_bytes, 64 * mib);
    EXPECT_EQ(all.response_bytes, 64 * mib);
    EXPECT_EQ(all.runs.all_bytes, 128 * mib);
    EXPECT_EQ(all.background.request_bytes, 64 * mib);
    EXPECT_EQ(all.sum(), 704 * mib);
    EXPECT_EQ(client_memory::choose(100'000 * mib).sum(), 704 * mib);
}

TEST(client_memory, is_a_quarter_of_a_small_limit_at_most) {
    for (const std::uint64_t limit : {std::uint64_t{800}, std::uint64_t{1000}, std::uint64_t{2000}})
        EXPECT_LE(client_memory::choose(limit * mib).sum(), limit * mib / 4) << limit;
    EXPECT_EQ(client_memory::choose(960 * mib).sessions.all_bytes, 80 * mib);
    EXPECT_EQ(client_memory::choose(960 * mib).response_bytes, 20 * mib);
}

TEST(client_memory, leaves_one_client_room_however_small_the_limit_is) {
    const client_memory least = client_memory::choose(1);
    EXPECT_EQ(least.sum(), 100 * mib);
    EXPECT_GE(least.runs.tenant_bytes, run_request_bytes_max);
    EXPECT_GE(least.background.request_bytes_of_tenant, 16 * mib);
}

}  // namespace
}  // namespace semantic::server

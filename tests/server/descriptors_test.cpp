// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/descriptors.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sys/resource.h>

namespace semantic::server {
namespace {

struct limits {
    rlim_t soft, hard;
};

/// Ends the process: 0 when there is `room` and the soft limit is `then` afterwards.
[[noreturn]] void try_limits(limits given, std::size_t connections, std::size_t room, rlim_t then) {
    rlimit limit{.rlim_cur = given.soft, .rlim_max = given.hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::exit(2);
    const bool is_room = make_room_for_connections(connections) == room;
    getrlimit(RLIMIT_NOFILE, &limit);
    std::exit(is_room && limit.rlim_cur == then && limit.rlim_max == given.hard ? 0 : 1);
}

void expect_room(limits given, std::size_t connections, std::size_t room, rlim_t then) {
    EXPECT_EXIT(try_limits(given, connections, room, then), testing::ExitedWithCode(0), "");
}

TEST(descriptors, limit_rises_as_far_as_the_connections_need) {
    expect_room({1000, 4000}, 1024, 1024, 1024 + own_descriptors);
    expect_room({2000, 4000}, 1024, 1024, 2000);
}

TEST(descriptors, connections_are_fewer_where_the_hard_limit_is_in_the_way) {
    const rlim_t enough = 1024 + own_descriptors;
    expect_room({500, enough}, 1024, 1024, enough);
    expect_room({500, enough - 1}, 1024, 1023, enough - 1);
    expect_room({100, 200}, 1024, 1, 200);
}

}  // namespace
}  // namespace semantic::server

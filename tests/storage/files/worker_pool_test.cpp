// SPDX-License-Identifier: Apache-2.0
#include "storage/files/worker_pool.hpp"

#include <boost/asio/post.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <sys/resource.h>
#include <unistd.h>

namespace semantic::storage {
namespace {

namespace asio = boost::asio;

TEST(worker_pool, runs_what_is_posted_side_by_side_and_all_of_it_before_join_returns) {
    worker_pool pool(2);
    std::promise<void> met;
    std::atomic<int> done{0};
    asio::post(pool.get_executor(), [&] {
        met.get_future().wait();
        ++done;
    });
    asio::post(pool.get_executor(), [&] { met.set_value(); });
    for (int i = 0; i < 100; ++i) asio::post(pool.get_executor(), [&] { ++done; });
    pool.join();
    EXPECT_EQ(done.load(), 101);
    pool.join();
}

TEST(worker_pool, drops_what_has_not_begun_when_it_goes) {
    std::atomic<int> begun{0};
    {
        worker_pool pool(1);
        std::promise<void> started;
        asio::post(pool.get_executor(), [&] {
            ++begun;
            started.set_value();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        });
        asio::post(pool.get_executor(), [&] { ++begun; });
        started.get_future().wait();
    }
    EXPECT_EQ(begun.load(), 1);
}

/// Leaves this process room for two or three stacks.
void leave_little_room() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit stack{}, room{};
    ::getrlimit(RLIMIT_STACK, &stack);
    const rlim_t stack_bytes = stack.rlim_cur == RLIM_INFINITY ? 8 << 20 : stack.rlim_cur;
    room.rlim_cur = room.rlim_max =
        pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + stack_bytes * 5 / 2;
    ::setrlimit(RLIMIT_AS, &room);
}

// Method: a process of its own, which is ended where it hangs.
TEST(worker_pool, a_refused_thread_is_an_exception_and_no_wait_for_ever) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "skipped: a sanitizer needs all the room there is";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto try_it = [] {
        ::alarm(20);
        leave_little_room();
        try {
            const worker_pool pool(64);
        } catch (const std::system_error&) {
            std::_Exit(7);
        }
        std::_Exit(8);
    };
    EXPECT_EXIT(try_it(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace semantic::storage

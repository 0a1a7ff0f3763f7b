// SPDX-License-Identifier: Apache-2.0
#include "storage/files/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <vector>

namespace semantic::storage {
namespace {

TEST(file_workers, each_job_is_done_once) {
    file_workers workers;
    for (const std::size_t count : {0u, 1u, 2u, 3u, 1000u}) {
        std::vector<std::atomic<int>> done(count);
        workers.run(count, [&](std::size_t i) { ++done[i]; });
        for (const auto& each : done) EXPECT_EQ(each, 1);
    }
}

TEST(file_workers, several_callers_each_get_their_own_jobs_done) {
    file_workers workers;
    std::vector<std::future<int>> sums;
    for (int caller = 0; caller < 4; ++caller)
        sums.push_back(std::async(std::launch::async, [&workers, caller] {
            std::atomic<int> sum{0};
            for (int round = 0; round < 100; ++round)
                workers.run(8, [&](std::size_t) { sum += caller; });
            return sum.load();
        }));
    for (int caller = 0; caller < 4; ++caller)
        EXPECT_EQ(sums[static_cast<std::size_t>(caller)].get(), 800 * caller);
}

// Goal: nobody waits for a helper that has not come. Method: jobs of another caller hold every
// helper up until the second caller's run has ended.
TEST(file_workers, who_finds_no_helper_does_all_alone) {
    constexpr std::size_t threads = 16;  // more than there are
    file_workers workers;
    std::latch let_go(1);
    std::vector<std::future<void>> held;
    for (std::size_t i = 0; i < threads; ++i)
        held.push_back(std::async(std::launch::async,
                                  [&] { workers.run(2, [&](std::size_t) { let_go.wait(); }); }));
    std::atomic<int> done{0};
    workers.run(100, [&](std::size_t) { ++done; });
    EXPECT_EQ(done, 100);
    let_go.count_down();
}

}  // namespace
}  // namespace semantic::storage

// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_strands.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace semantic::storage {
namespace {

agent_id id_of(const std::string& text) { return agent_id::parse(text).value(); }

TEST(agent_strands, jobs_of_one_agent_run_in_order_and_never_at_once) {
    std::vector<int> order;
    std::atomic<int> inside{0};
    {
        agent_strands strands(4, 1000);
        for (int i = 0; i < 500; ++i)
            ASSERT_TRUE(strands.post(id_of("a"), [&, i] {
                EXPECT_EQ(++inside, 1);
                order.push_back(i);
                --inside;
            }));
        strands.drain();
        EXPECT_EQ(strands.pending(), 0u);
    }
    ASSERT_EQ(order.size(), 500u);
    for (int i = 0; i < 500; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

// Method: two jobs of two agents that each wait for the other can only end when they run at once.
TEST(agent_strands, different_agents_run_in_parallel) {
    std::mutex mutex;
    std::condition_variable both;
    int arrived = 0;
    agent_strands strands(2, 10);
    for (const char* name : {"a", "b"})
        ASSERT_TRUE(strands.post(id_of(name), [&] {
            std::unique_lock lock(mutex);
            ++arrived;
            both.notify_all();
            EXPECT_TRUE(
                both.wait_for(lock, std::chrono::seconds(20), [&] { return arrived == 2; }));
        }));
    strands.drain();
    EXPECT_EQ(arrived, 2);
}

TEST(agent_strands, one_job_more_than_the_bound_is_refused) {
    std::mutex gate;
    agent_strands strands(1, 2);
    std::unique_lock closed(gate);
    ASSERT_TRUE(strands.post(id_of("a"), [&] { std::lock_guard wait(gate); }));
    ASSERT_TRUE(strands.post(id_of("b"), [] {}));
    EXPECT_EQ(strands.pending(), 2u);
    EXPECT_FALSE(strands.post(id_of("b"), [] { FAIL() << "was refused"; }));
    closed.unlock();
    strands.drain();
    EXPECT_TRUE(strands.post(id_of("b"), [] {}));
}

TEST(agent_strands, drain_waits_for_what_the_jobs_hold_too) {
    agent_strands strands(2, 100);
    for (int round = 0; round < 200; ++round) {
        auto held = std::make_shared<int>(round);
        const std::weak_ptr<int> watched = held;
        ASSERT_TRUE(strands.post(id_of("a"), [held = std::move(held)] {}));
        strands.drain();
        ASSERT_TRUE(watched.expired());
    }
}

TEST(agent_strands, a_job_may_post_another) {
    std::atomic<int> runs{0};
    agent_strands strands(1, 10);
    ASSERT_TRUE(strands.post(id_of("a"), [&] {
        ++runs;
        EXPECT_TRUE(strands.post(id_of("a"), [&] { ++runs; }));
    }));
    strands.drain();
    EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace semantic::storage

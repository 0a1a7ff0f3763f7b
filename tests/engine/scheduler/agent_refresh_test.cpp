// SPDX-License-Identifier: Apache-2.0
// What becomes of a request for a shared agent when its newest memory is not looked for.

#include "engine/scheduler/agent_refresh.hpp"

#include <gtest/gtest.h>

#include "tests/objects/machine.hpp"

namespace semantic::engine {
namespace {

using namespace storage::tests;

/// A node whose disk queue is as full as `has_room` says.
struct refreshing : refresh_outputs {
    bool has_room = true;
    semantic::tests::temp_dir objects, cache;
    machine node{objects.path(), cache.path()};
    agent_claims claims{*node.store, nullptr, held_elsewhere::refuse};
    int arrived = 0;
    std::vector<failed> refused;
    agent_refresh refresh{*node.store, node.shared.get(), claims, *this};

    bool post(const storage::agent_id&, std::function<void()> work) override {
        if (has_room) work();
        return has_room;
    }
    bool is_extended(const storage::agent_id&, const job&) override { return false; }
    void arrive(const job_ptr&) override { ++arrived; }
    void refuse(const job_ptr&, failed why) override { refused.push_back(why); }
    void warn(std::string) const override {}

    void begin(bool append) {
        auto work = std::make_shared<job>();
        work->request.agent = id_of("ada");
        work->request.append = append;
        refresh.begin(work);
    }
};

TEST(agent_refresh, with_a_full_disk_queue_a_whole_conversation_goes_on_and_an_addition_does_not) {
    refreshing test;
    test.begin(false);
    test.begin(true);
    EXPECT_EQ(test.arrived, 2);
    test.has_room = false;
    test.begin(false);
    EXPECT_EQ(test.arrived, 3);
    EXPECT_TRUE(test.refused.empty());
    test.begin(true);
    EXPECT_EQ(test.arrived, 3);
    ASSERT_EQ(test.refused.size(), 1u);
    EXPECT_EQ(test.refused[0].kind, failure_kind::overloaded);
    EXPECT_NE(test.refused[0].what.find("too much disk work is waiting"), std::string::npos);
    EXPECT_TRUE(test.refused[0].retry_after);
}

}  // namespace
}  // namespace semantic::engine

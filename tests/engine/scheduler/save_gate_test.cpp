// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/save_gate.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace semantic::engine {
namespace {

using clock = std::chrono::steady_clock;

struct delivery {
    request_id id;
    finished last;
};

// Collects deliveries; the gate's own thread may write.
class save_gate_ : public testing::Test, protected save_gate::receiver {
  protected:
    job_ptr work(request_id id) {
        auto made = std::make_shared<job>();
        made->id = id;
        return made;
    }
    std::vector<delivery> seen() {
        std::lock_guard lock(mutex_);
        return seen_;
    }
    bool wait_for(std::size_t count) {
        auto end = clock::now() + std::chrono::seconds(10);
        while (clock::now() < end) {
            if (seen().size() >= count) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }
    void deliver_end(const job_ptr& work, finished last) override {
        std::lock_guard lock(mutex_);
        seen_.push_back({work->id, std::move(last)});
    }
    std::mutex mutex_;
    std::vector<delivery> seen_;
};

TEST_F(save_gate_, an_answer_ends_when_its_memory_is_on_disk) {
    save_gate gate(*this);
    gate.hold(work(1), {}, clock::now() + std::chrono::hours(1));
    EXPECT_TRUE(seen().empty());
    gate.end_save(1, {});
    ASSERT_EQ(seen().size(), 1u);
    EXPECT_TRUE(seen()[0].last.saved);
    EXPECT_EQ(seen()[0].last.unsaved, unsaved_reason::none);
}

TEST_F(save_gate_, without_patience_answers_end_at_once_and_unsaved) {
    save_gate gate(*this);
    gate.hold(work(1), {}, clock::now() + std::chrono::hours(1));
    gate.set_patient(false);
    gate.hold(work(2), {}, clock::now() + std::chrono::hours(1));
    ASSERT_EQ(seen().size(), 2u);
    for (const delivery& each : seen()) {
        EXPECT_FALSE(each.last.saved);
        EXPECT_EQ(each.last.unsaved, unsaved_reason::late);
    }
    gate.end_save(1, {});
    EXPECT_EQ(seen().size(), 2u);
    gate.set_patient(true);
    gate.hold(work(3), {}, clock::now() + std::chrono::hours(1));
    EXPECT_EQ(seen().size(), 2u);
}

TEST_F(save_gate_, a_failed_save_lets_the_answer_end_and_says_so) {
    save_gate gate(*this);
    gate.hold(work(1), {}, clock::now() + std::chrono::hours(1));
    gate.end_save(1, {unsaved_reason::failed, written_bytes{5, 9}});
    ASSERT_EQ(seen().size(), 1u);
    EXPECT_FALSE(seen()[0].last.saved);
    EXPECT_EQ(seen()[0].last.unsaved, unsaved_reason::failed);
    ASSERT_TRUE(seen()[0].last.written);
    EXPECT_EQ(seen()[0].last.written->turn, 5u);
    EXPECT_EQ(seen()[0].last.written->total, 9u);
}

TEST_F(save_gate_, a_slow_save_holds_the_answer_no_longer_than_its_bound_and_is_delivered_once) {
    save_gate gate(*this);
    gate.hold(work(2), {}, clock::now() + std::chrono::hours(1));
    gate.hold(work(1), {}, clock::now() + std::chrono::milliseconds(20));
    ASSERT_TRUE(wait_for(1));
    EXPECT_EQ(seen()[0].id, 1u);
    EXPECT_FALSE(seen()[0].last.saved);
    EXPECT_EQ(seen()[0].last.unsaved, unsaved_reason::late);
    EXPECT_FALSE(seen()[0].last.written);
    gate.end_save(1, {});  // too late
    EXPECT_EQ(seen().size(), 1u);
}

TEST_F(save_gate_, what_is_still_held_when_the_gate_goes_is_delivered) {
    {
        save_gate gate(*this);
        gate.hold(work(1), {}, clock::now() + std::chrono::hours(1));
    }
    ASSERT_EQ(seen().size(), 1u);
    EXPECT_EQ(seen()[0].last.unsaved, unsaved_reason::late);
}

TEST_F(save_gate_, an_unknown_request_is_ignored) {
    save_gate gate(*this);
    gate.end_save(77, {});
    EXPECT_TRUE(seen().empty());
}

}  // namespace
}  // namespace semantic::engine

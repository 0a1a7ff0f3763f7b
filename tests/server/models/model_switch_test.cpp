// SPDX-License-Identifier: Apache-2.0
// Exchanges of models over scripted engines: what happens to whom when, and when something breaks.

#include "server/models/model_switch.hpp"

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/scripted_engine.hpp"

namespace semantic::server {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using tests::answer_with;
using tests::scripted_engine;

constexpr std::size_t a = 0;
constexpr std::size_t b = 1;

/// A switch between "a" and "b" that writes down what happens.
class model_switch_test : public ::testing::Test {
  protected:
    model_switch_test() : switch_(slot_, options()) {
        EXPECT_TRUE(switch_.ask(a, {}));
        settle();
    }
    ~model_switch_test() override {
        switch_.close(clock::now());
        switch_.join();
    }

    switch_options options() {
        switch_options how;
        how.load = [this](std::size_t model, const auto& progress) {
            progress({"reading", 0.5});
            return load(model);
        };
        how.on_step = [this](const slot_state& now) {
            std::lock_guard lock(mutex_);
            steps_ += std::string(to_string(now.phase)) + " ";
        };
        how.on_settled = [this](const slot_state&) {
            std::lock_guard lock(mutex_);
            ++settled_;
            changed_.notify_all();
        };
        how.farewell = milliseconds(50);
        how.patience = milliseconds(50);
        how.answer_time = milliseconds(300);
        return how;
    }

    storage::result<std::unique_ptr<engine::engine>> load(std::size_t model) {
        const std::string name = model == a ? "a" : "b";
        std::lock_guard lock(mutex_);
        if (auto fault = load_faults_.find(name); fault != load_faults_.end()) {
            const std::string message = fault->second;
            if (message.starts_with("throw")) throw std::bad_alloc();
            return storage::failure{storage::errc::corrupt, message};
        }
        auto made = std::make_unique<scripted_engine>(name);
        if (!is_mute_.contains(name)) made->on_submit = answer_with({"hi"});
        engine_ = made.get();
        ++loads_;
        return std::unique_ptr<engine::engine>(std::move(made));
    }

    /// Waits until the exchange that was asked for last is over. Returns: what it has led to.
    slot_state settle() {
        std::unique_lock lock(mutex_);
        const int wanted = ++expected_;
        EXPECT_TRUE(
            changed_.wait_for(lock, std::chrono::seconds(10), [&] { return settled_ >= wanted; }));
        return slot_.state();
    }
    slot_state swap(std::size_t model, milliseconds drain = milliseconds(0)) {
        {
            std::lock_guard lock(mutex_);
            steps_.clear();
        }
        const auto asked = switch_.ask(model, drain);
        EXPECT_TRUE(asked) << asked.error().message;
        return settle();
    }
    std::string runs() {
        const engine_lease engine = slot_.lease();
        return engine ? engine->info().id : "none";
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string steps_;
    int settled_ = 0;
    int expected_ = 0;
    int loads_ = 0;
    std::map<std::string, std::string> load_faults_;
    std::map<std::string, bool> is_mute_;
    scripted_engine* engine_ = nullptr;
    engine_slot slot_;
    model_switch switch_;
};

TEST_F(model_switch_test, an_exchange_takes_every_phase_and_proves_by_an_answer) {
    EXPECT_EQ(runs(), "a");
    EXPECT_EQ(engine_->request_count(), 0u) << "a start needs no proof";
    const slot_state now = swap(b);
    EXPECT_EQ(now.phase, slot_phase::ready);
    EXPECT_EQ(steps_, "draining saving releasing loading verifying ready ");
    EXPECT_EQ(runs(), "b");
    EXPECT_EQ(engine_->request_count(), 1u);
    EXPECT_TRUE(engine_->agents_of_all().empty()) << "what the proof left is forgotten";
    EXPECT_EQ(switch_.exchanges_done(), 1u);
    EXPECT_EQ(swap(a).why, "");
    EXPECT_EQ(runs(), "a");
}

TEST_F(model_switch_test, the_model_that_is_there_is_not_exchanged) {
    EXPECT_TRUE(switch_.ask(a, {}));
    EXPECT_EQ(slot_.state().phase, slot_phase::ready);
    EXPECT_EQ(loads_, 1);
}

TEST_F(model_switch_test, requests_that_run_may_end_within_the_drain) {
    auto lease = std::make_unique<engine_lease>(slot_.lease());
    std::thread request([&] {
        std::this_thread::sleep_for(milliseconds(100));
        EXPECT_EQ(slot_.state().phase, slot_phase::draining);
        EXPECT_FALSE(engine_->was_drained());
        lease.reset();
    });
    EXPECT_EQ(swap(b, std::chrono::seconds(10)).model, b);
    request.join();
}

TEST_F(model_switch_test, what_runs_at_the_end_of_the_drain_is_cancelled_and_then_cut) {
    engine_lease lease = slot_.lease();
    std::atomic<bool> was_cut{false};
    lease.when_cut([&] {
        was_cut = true;
        lease = {};
    });
    EXPECT_EQ(swap(b, milliseconds(20)).model, b);
    EXPECT_TRUE(was_cut);
}

TEST_F(model_switch_test, a_lease_that_is_never_given_back_leaves_the_model_where_it_is) {
    const engine_lease lease = slot_.lease();
    scripted_engine* const before = engine_;
    const slot_state now = swap(b);
    EXPECT_EQ(now.phase, slot_phase::ready);
    EXPECT_EQ(now.model, a);
    EXPECT_EQ(now.why, "1 requests did not end; a goes on");
    EXPECT_EQ(before->resumed, 1) << "it takes requests again";
    EXPECT_EQ(lease->info().id, "a") << "nobody's engine went away under him";
    EXPECT_EQ(switch_.exchanges_failed(), 1u);
}

TEST_F(model_switch_test, agents_that_cannot_be_saved_keep_the_model_where_it_is) {
    engine_->usage.agents_dirty = 2;
    const slot_state now = swap(b);
    EXPECT_EQ(now.model, a);
    EXPECT_EQ(now.why, "2 agents could not be saved: the log says why; a goes on");
    EXPECT_EQ(engine_->resumed, 1);
    EXPECT_EQ(loads_, 1) << "b was not tried";
    engine_->usage.agents_dirty = 0;
    EXPECT_EQ(swap(b).model, b) << "and can be asked for again";
}

TEST_F(model_switch_test, what_does_not_load_brings_the_former_model_back_with_proof) {
    for (const char* fault : {"torn tensor", "throw"}) {
        load_faults_["b"] = fault;
        const slot_state now = swap(b);
        EXPECT_EQ(now.phase, slot_phase::ready) << fault;
        EXPECT_EQ(now.model, a);
        EXPECT_EQ(steps_, "draining saving releasing loading loading verifying ready ");
        EXPECT_EQ(runs(), "a");
        EXPECT_EQ(engine_->request_count(), 1u) << "it has answered";
    }
    EXPECT_NE(slot_.state().why.find("refuses memory"), std::string::npos) << slot_.state().why;
    load_faults_.clear();
    EXPECT_EQ(swap(b).why, "") << "the next success forgets the fault";
}

TEST_F(model_switch_test, a_model_that_loads_and_gives_no_answer_brings_the_former_one_back) {
    is_mute_["b"] = true;
    const slot_state now = swap(b);
    EXPECT_EQ(now.model, a);
    EXPECT_EQ(now.why, "b: it gave no answer in time");
    EXPECT_EQ(steps_,
              "draining saving releasing loading verifying releasing loading verifying ready ");
    EXPECT_EQ(runs(), "a");
}

TEST_F(model_switch_test, when_the_former_model_does_not_come_back_either_that_is_told) {
    load_faults_ = {{"a", "gone"}, {"b", "torn"}};
    slot_state now = swap(b);
    EXPECT_EQ(now.phase, slot_phase::failed);
    EXPECT_EQ(now.why, "torn; gone");
    EXPECT_EQ(runs(), "none");
    load_faults_.clear();
    is_mute_ = {{"a", true}};
    now = swap(a);
    EXPECT_EQ(now.phase, slot_phase::failed) << "nor does a mute one count";
    is_mute_.clear();
    EXPECT_EQ(swap(a).phase, slot_phase::ready) << "a failed slot can be asked again";
    EXPECT_EQ(runs(), "a");
}

TEST_F(model_switch_test, a_second_exchange_during_one_is_a_conflict) {
    auto lease = std::make_unique<engine_lease>(slot_.lease());
    EXPECT_TRUE(switch_.ask(b, std::chrono::seconds(10)));
    const auto second = switch_.ask(a, {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, protocol::errc::conflict);
    lease.reset();
    EXPECT_EQ(settle().model, b);
}

TEST_F(model_switch_test, after_close_a_drain_ends_in_time_and_the_engine_stays_to_be_saved) {
    const engine_lease lease = slot_.lease();
    EXPECT_TRUE(switch_.ask(b, std::chrono::seconds(300)));
    EXPECT_EQ(switch_.close(clock::now() + milliseconds(20)), slot_phase::draining);
    const auto begun = clock::now();
    switch_.join();
    EXPECT_LT(clock::now() - begun, std::chrono::seconds(5));
    EXPECT_EQ(slot_.own(), engine_);
    EXPECT_FALSE(switch_.ask(b, {}));
}

TEST_F(model_switch_test, after_close_a_proof_ends_in_time) {
    switch_options how = options();
    how.answer_time = std::chrono::seconds(300);
    is_mute_["b"] = true;
    engine_slot slot;
    model_switch other(slot, how);
    ASSERT_TRUE(other.ask(a, {}));
    settle();
    ASSERT_TRUE(other.ask(b, {}));
    while (slot.state().phase != slot_phase::verifying) std::this_thread::yield();
    const auto begun = clock::now();
    EXPECT_EQ(other.close(clock::now()), slot_phase::verifying);
    other.join();
    EXPECT_LT(clock::now() - begun, std::chrono::seconds(5));
}

}  // namespace
}  // namespace semantic::server

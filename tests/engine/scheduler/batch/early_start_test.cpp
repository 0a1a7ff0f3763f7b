// SPDX-License-Identifier: Apache-2.0
// A request that begins while its prefix is still being read: it says what it always says, and
// nobody pays for its disk.

#include <thread>

#include "storage/pool/prefix_arrival.hpp"
#include "tests/engine/scheduler/bare_batch.hpp"

namespace semantic::engine {
namespace {

using tests::bare_batch;
using tests::endless;
using tests::notes;
using tests::run_options;
using tests::turn;

/// An agent whose memory has left the pool, and its next turn, which has its place.
class early_start : public testing::Test {
  protected:
    early_start() {
        remember(running);
        running.evict(1);
        work = running.go_on_from(1, 2, endless(6, 9));
        running.step();
        EXPECT_EQ(running.restoring, std::vector{work});
        found = running.read_prefix(*work);
        EXPECT_GT(found.tokens_read, 256);
        EXPECT_EQ(found.tokens_read, found.tokens);
        arrival = std::make_shared<storage::prefix_arrival>(
            std::vector<int>(static_cast<std::size_t>(running.layers()), 1));
    }
    static void remember(bare_batch& some) {
        some.add(1, turn(notes(30)), endless(4, 1));
        some.run_all();
    }
    void begin_early() {
        storage::restored_prefix begun = found;
        begun.arrival = arrival;
        running.arriving(work, std::move(begun));
    }
    void all_layers_come() {
        for (int layer = 0; layer < running.layers(); ++layer) arrival->came({&layer, 1});
    }
    bool is_told() const { return running.usages.contains(2); }
    void expect_the_same_answer() {
        bare_batch hot(run_options{});
        remember(hot);
        hot.go_on_from(1, 2, endless(6, 9));
        hot.run_all();
        EXPECT_EQ(hot.tokens[2][0].size(), 6u);
        EXPECT_EQ(running.tokens[2], hot.tokens[2]);
    }

    bare_batch running{run_options{}};
    job_ptr work;
    storage::restored_prefix found;
    std::shared_ptr<storage::prefix_arrival> arrival;
};

TEST_F(early_start, computes_each_layer_when_it_has_come) {
    begin_early();
    std::thread disk([&] {
        for (int layer = 0; layer < running.layers(); ++layer) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            EXPECT_FALSE(is_told());
            arrival->came({&layer, 1});
        }
    });
    running.step();
    disk.join();
    EXPECT_EQ(running.tokens[2][0].size(), 1u);
    EXPECT_EQ(running.usages[2].restored_tokens, found.tokens);
    EXPECT_EQ(running.usages[2].reused_tokens, found.tokens);
    EXPECT_EQ(running.probe_.early_starts, 1u);
    running.restored(work, found);  // comes when all is read, and is no news then
    running.run_all();
    EXPECT_EQ(running.ends[2], 1);
    expect_the_same_answer();
}

TEST_F(early_start, is_told_of_when_all_is_there_and_not_when_its_first_step_is_done) {
    std::vector<std::uint64_t> steps_before;
    running.on_emit = [&](const job& sender, const generation_event& event) {
        if (sender.id == 2 && std::holds_alternative<admitted>(event))
            steps_before.push_back(running.probe_.steps.load());
    };
    const std::uint64_t steps = running.probe_.steps.load();
    begin_early();
    all_layers_come();
    running.step();
    EXPECT_EQ(running.tokens[2][0].size(), 1u);
    EXPECT_EQ(steps_before, std::vector{steps});
    EXPECT_EQ(running.probe_.early_starts, 1u);
    EXPECT_EQ(running.probe_.steps, steps + 1);
    running.restored(work, found);
    running.run_all();
    EXPECT_EQ(running.ends[2], 1);
    expect_the_same_answer();
}

TEST_F(early_start, that_has_not_run_when_all_is_there_begins_as_usual) {
    begin_early();
    all_layers_come();
    running.restored(work, found);
    running.run_all();
    EXPECT_EQ(running.probe_.early_starts, 0u);
    expect_the_same_answer();
}

TEST_F(early_start, gives_way_to_who_comes_while_it_waits_for_the_disk) {
    begin_early();
    running.inbound = true;
    running.step();
    EXPECT_FALSE(is_told());
    running.inbound = false;
    running.add(3, turn("Hello."), endless(4, 3));
    running.step();
    EXPECT_EQ(running.tokens[3][0].size(), 1u);
    EXPECT_FALSE(is_told());
    all_layers_come();
    running.restored(work, found);
    running.run_all();
    EXPECT_EQ(running.tokens[3][0].size(), 4u);
    EXPECT_EQ(running.probe_.early_starts, 0u);
    expect_the_same_answer();
}

TEST_F(early_start, gives_way_to_who_came_before_its_first_step) {
    begin_early();
    running.add(3, turn("Hello."), endless(4, 3));
    running.step();
    EXPECT_EQ(running.tokens[3][0].size(), 1u);
    EXPECT_FALSE(is_told());
    running.restored(work, found);
    running.run_all();
    expect_the_same_answer();
}

TEST_F(early_start, does_not_happen_beside_others) {
    running.add(3, turn("Hello."), endless(20, 3));
    running.step();
    begin_early();
    running.step();
    EXPECT_EQ(running.tokens[3][0].size(), 2u);
    EXPECT_FALSE(is_told());
    running.restored(work, found);
    running.run_all();
    expect_the_same_answer();
}

TEST_F(early_start, whose_prefix_turns_out_damaged_begins_anew_with_what_is_left) {
    begin_early();
    int layer = 0;
    arrival->came({&layer, 1});
    arrival->failed();
    running.step();
    EXPECT_FALSE(is_told());
    storage::restored_prefix left = found;
    left.blocks.resize(1);
    left.tokens = left.tokens_read = 256;
    left.why = storage::shortfall::corrupt;
    left.detail = "of a file";
    running.restored(work, left);
    running.run_all();
    EXPECT_EQ(running.usages[2].reused_tokens, 256);
    EXPECT_EQ(running.usages[2].recomputed_tokens, found.tokens - 256 + 1);
    EXPECT_EQ(running.usages[2].why, miss_reason::corrupt);
    EXPECT_EQ(running.probe_.early_starts, 0u);
    expect_the_same_answer();
}

TEST_F(early_start, that_is_cancelled_publishes_nothing_that_is_not_there) {
    const int before = running.remembered(1);
    begin_early();
    work->cancelled = true;
    running.step();
    EXPECT_FALSE(running.ends.contains(2));
    EXPECT_EQ(running.remembered(1), before);
    arrival->failed();
    running.restored(work, {{}, 0, 0, storage::shortfall::corrupt, "of a file", 0});
    running.run_all();
    EXPECT_EQ(running.finishes[2].why, stop_reason::cancelled);
    EXPECT_EQ(running.remembered(1), before);
}

TEST_F(early_start, that_is_cancelled_while_it_waits_for_the_disk_waits_no_longer) {
    begin_early();
    std::thread client([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        work->cancelled = true;
    });
    running.step();
    client.join();
    EXPECT_FALSE(is_told());
    running.restored(work, found);
    running.run_all();
    EXPECT_EQ(running.finishes[2].why, stop_reason::cancelled);
}

TEST_F(early_start, whose_events_cannot_be_delivered_fails_alone) {
    running.on_emit = [](const job& sender, const generation_event&) {
        if (sender.id == 2) throw std::runtime_error("no room for events");
    };
    begin_early();
    all_layers_come();
    running.step();
    EXPECT_EQ(running.ends[2], 1);
    EXPECT_TRUE(running.failures.contains(2));
    running.restored(work, found);
    running.add(3, turn("Hello."), endless(4, 3));
    running.run_all();
    EXPECT_EQ(running.tokens[3][0].size(), 4u);
    EXPECT_EQ(running.ends[2], 1);
}

}  // namespace
}  // namespace semantic::engine

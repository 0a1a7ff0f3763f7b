// SPDX-License-Identifier: Apache-2.0
// Every task once, whatever threads there are to help.

#include "engine/kernels/task_runner.hpp"

#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace semantic::engine {
namespace {

/// Pieces of work of 1 to 67 tasks, each checked when run() is back.
void run_pieces(const task_runner& tasks, int pieces) {
    for (int piece = 0; piece < pieces; ++piece) {
        const int count = 1 + piece % 67;
        std::vector<int> done(static_cast<std::size_t>(count), 0);
        tasks.run(count, true, [&](int index, int) { ++done[static_cast<std::size_t>(index)]; });
        ASSERT_EQ(done, std::vector<int>(static_cast<std::size_t>(count), 1)) << piece;
    }
}

TEST(task_runner, every_task_of_every_piece_runs_once_before_the_next_piece) {
    // More threads than cores, too.
    tbb::global_control enough(tbb::global_control::max_allowed_parallelism, 5);
    for (const int threads : {1, 2, 5}) {
        tbb::task_arena arena(threads);
        arena.execute([&] {
            const task_runner tasks;
            EXPECT_EQ(tasks.slots(), threads);
            tasks.together([&] { run_pieces(tasks, 3000); });
            run_pieces(tasks, 30);  // outside of together(), too
        });
    }
}

TEST(task_runner, work_goes_on_when_the_arena_lends_no_thread) {
    tbb::global_control alone(tbb::global_control::max_allowed_parallelism, 1);
    const task_runner tasks(4);
    tasks.together([&] { run_pieces(tasks, 300); });
}

TEST(task_runner, tasks_that_run_at_the_same_time_have_slots_of_their_own) {
    tbb::global_control enough(tbb::global_control::max_allowed_parallelism, 4);
    tbb::task_arena arena(4);
    arena.execute([&] {
        const task_runner tasks;
        std::vector<std::atomic<int>> busy(4);
        std::atomic<int> collisions{0};
        tasks.together([&] {
            for (int piece = 0; piece < 200; ++piece) {
                tasks.run(16, true, [&](int, int slot) {
                    std::atomic<int>& mine = busy[static_cast<std::size_t>(slot)];
                    if (mine.fetch_add(1) != 0) ++collisions;
                    std::this_thread::yield();
                    mine.fetch_sub(1);
                });
            }
        });
        EXPECT_EQ(collisions, 0);
    });
}

TEST(task_runner, an_exception_is_thrown_when_all_tasks_have_ended_and_leaves_it_usable) {
    const task_runner tasks(3);
    std::atomic<int> ended{0};
    const auto fails = [&] {
        tasks.run(40, true, [&](int index, int) {
            ++ended;
            if (index % 7 == 0) throw std::runtime_error("one of several");
        });
    };
    EXPECT_THROW(fails(), std::runtime_error);
    EXPECT_EQ(ended, 40);
    EXPECT_THROW(tasks.together(fails), std::runtime_error);
    EXPECT_EQ(ended, 80);
    tasks.together([&] { run_pieces(tasks, 100); });
}

/// Keeps this thread busy, as a product would.
void work_for(std::chrono::microseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
}

// TBB may miss a call that comes while the thread it calls falls asleep, and the caller would be
// alone for the rest of a pass, tens of milliseconds. Each round calls at another moment after the
// helper has left; the pieces are long enough for it to come even on a busy machine.
TEST(task_runner, a_helper_that_missed_its_call_comes_in_the_course_of_a_long_piece) {
    using std::chrono::microseconds;
    tbb::task_arena arena(2);
    int alone = 0;
    arena.execute([&] {
        const task_runner tasks;
        for (int round = 0; round < 400; ++round) {
            tasks.together([&] {
                tasks.run(8, true, [](int, int) { work_for(microseconds(150)); });
                work_for(microseconds(round));
                std::atomic<bool> helped{false};
                tasks.run(20'000, true, [&](int, int slot) {
                    if (slot != 0) helped = true;
                    if (!helped) work_for(microseconds(50));
                });
                if (!helped) ++alone;
            });
        }
    });
    EXPECT_EQ(alone, 0);
}

// Who helps with a long pass comes by the arena's other work all the same.
TEST(task_runner, other_work_of_the_arena_gets_a_thread_while_a_pass_goes_on) {
    tbb::task_arena arena(2);
    std::atomic<bool> came_by{false};
    arena.execute([&] {
        const task_runner tasks;
        tasks.together([&] {
            run_pieces(tasks, 10);
            arena.enqueue([&] { came_by = true; });
            while (!came_by) {
                run_pieces(tasks, 1);
                std::this_thread::yield();
            }
        });
    });
    EXPECT_TRUE(came_by);
}

TEST(task_runner, rows_are_shared_out_without_gaps) {
    const task_runner tasks(3);
    for (const int count : {0, 1, 5, 16, 100}) {
        for (const int elements : {1, 100'000}) {
            std::vector<int> done(static_cast<std::size_t>(count), 0);
            tasks.for_rows(7, 7 + count, elements,
                           [&](int row) { ++done[static_cast<std::size_t>(row - 7)]; });
            EXPECT_EQ(done, std::vector<int>(static_cast<std::size_t>(count), 1)) << count;
        }
    }
}

}  // namespace
}  // namespace semantic::engine

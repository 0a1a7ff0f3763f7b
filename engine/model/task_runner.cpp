#include "engine/model/task_runner.hpp"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>

namespace semantic::engine {

task_runner::task_runner(int slots)
    : slots_(slots > 0 ? slots : std::max(1, tbb::this_task_arena::max_concurrency())) {}

void task_runner::run_parallel(int count, void* self, void (*call)(void*, int, int)) const {
    // Tasks are drawn from one counter, so a slow thread takes fewer of them, and a slot belongs to
    // one loop body at a time.
    std::atomic<int> next{0};
    tbb::parallel_for(
        0, std::min(slots_, count), 1,
        [&](int slot) {
            for (int i = next.fetch_add(1, std::memory_order_relaxed); i < count;
                 i = next.fetch_add(1, std::memory_order_relaxed)) {
                call(self, i, slot);
            }
        },
        tbb::simple_partitioner{});
}

void task_runner::run_isolated(void* self, void (*call)(void*)) {
    tbb::this_task_arena::isolate([&] { call(self); });
}

}  // namespace semantic::engine

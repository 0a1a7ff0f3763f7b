// SPDX-License-Identifier: Apache-2.0
#pragma once
// Splits the work of a step over the threads of the arena in which the caller runs.
// Owner: transformer. Thread: together() and run() are called by one thread at a time.
// A slot is the number of the scratch memory that a task may use. Their number is known at load, so
// a step allocates nothing.
//
// A step is some two hundred short pieces of work, each of which all threads must have finished
// before the next one starts. Waking a thread for each would cost more than most of them, so the
// helping threads spin for the whole of together(): they look for the next piece until there is
// one. The caller does not rely on them: it runs every piece that no helper takes, so a step goes
// on when the arena lends no thread at all.

#include <algorithm>
#include <memory>
#include <type_traits>

namespace semantic::engine {

class task_runner {
  public:
    /// `slots`: how many tasks may run at once; 0 means as many as the calling thread's arena has.
    explicit task_runner(int slots = 0);
    ~task_runner();

    int slots() const noexcept { return slots_; }

    /// Calls task(index, slot) once for every index below `count`, in any order, and returns when
    /// all are done. Neighbours in index mostly run on one thread, one after the other. No two
    /// tasks that run at the same time have the same slot. An exception of a task is thrown again
    /// when all have ended. `parallel` false, or one slot: in order, on the calling thread.
    template <class Task>
    void run(int count, bool parallel, Task&& task) const {
        if (!parallel || slots_ == 1 || count <= 1) {
            for (int i = 0; i < count; ++i) task(i, 0);
            return;
        }
        using target = std::remove_reference_t<Task>;
        run_parallel(count, erased(task), [](void* self, int index, int slot) {
            (*static_cast<target*>(self))(index, slot);
        });
    }

    /// Calls body(row) once for every row in [begin, end), several rows to a task; on the calling
    /// thread when there is too little to do.
    template <class Body>
    void for_rows(int begin, int end, int elements_per_row, Body&& body) const {
        const int count = end - begin;
        const double elements = static_cast<double>(count) * elements_per_row;
        const int per_task = std::clamp(count / (2 * slots_), 1, rows_per_task_max);
        run((count + per_task - 1) / per_task, elements > parallel_elements, [&](int task, int) {
            const int from = begin + task * per_task;
            for (int row = from; row < std::min(from + per_task, end); ++row) body(row);
        });
    }

    /// Calls body(), whose parallel parts need no thread to be woken and never pick up foreign work
    /// of the arena while they wait.
    template <class Body>
    void together(Body&& body) const {
        using target = std::remove_reference_t<Body>;
        run_together(erased(body), [](void* self) { (*static_cast<target*>(self))(); });
    }

  private:
    /// The most rows of one task in for_rows().
    static constexpr int rows_per_task_max = 8;
    /// Elements that one thread handles in about 2 microseconds: it does not pay to share fewer.
    static constexpr double parallel_elements = 12 * 1024;

    class crew;

    template <class Callable>
    static void* erased(Callable& callable) {
        return const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
    }
    void run_parallel(int count, void* self, void (*call)(void*, int, int)) const;
    void run_together(void* self, void (*call)(void*)) const;
    int slots_;
    std::unique_ptr<crew> crew_;
};

}  // namespace semantic::engine

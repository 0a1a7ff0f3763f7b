#pragma once
// Splits a step's work over the threads of the arena that the caller is in.
// Owner: transformer. Thread: run() is called by one thread at a time.
// A slot names the scratch memory that a task may use: it is known at load how many there are, so a
// step allocates nothing.

#include <algorithm>
#include <memory>
#include <type_traits>

namespace semantic::engine {

class task_runner {
  public:
    /// `slots`: how many tasks may run at once; 0 means as many as the calling thread's arena has.
    explicit task_runner(int slots = 0);

    int slots() const noexcept { return slots_; }

    /// Calls task(index, slot) once for every index below `count`, in any order, and returns when
    /// all are done. No two tasks that run at the same time have the same slot. `parallel` false,
    /// or one slot: in order, on the calling thread.
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
        const int count = end - begin, tasks = (count + rows_per_task - 1) / rows_per_task;
        const double elements = static_cast<double>(count) * elements_per_row;
        run(tasks, elements > parallel_elements, [&](int task, int) {
            const int from = begin + task * rows_per_task;
            for (int row = from; row < std::min(from + rows_per_task, end); ++row) body(row);
        });
    }

    /// Calls body() so that its parallel parts never pick up foreign work of the arena while they
    /// wait.
    template <class Body>
    static void isolated(Body&& body) {
        using target = std::remove_reference_t<Body>;
        run_isolated(erased(body), [](void* self) { (*static_cast<target*>(self))(); });
    }

  private:
    /// Rows of one task where rows are worked on one by one.
    static constexpr int rows_per_task = 8;
    /// Elements that one thread handles in about 10 microseconds; below, waking another one does
    /// not pay.
    static constexpr double parallel_elements = 64 * 1024;

    template <class Callable>
    static void* erased(Callable& callable) {
        return const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
    }
    void run_parallel(int count, void* self, void (*call)(void*, int, int)) const;
    static void run_isolated(void* self, void (*call)(void*));
    int slots_;
};

}  // namespace semantic::engine

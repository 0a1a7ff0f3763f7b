#include "engine/kernels/task_runner.hpp"

#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace semantic::engine {

namespace {

using clock = std::chrono::steady_clock;

/// How long a thread helps before it asks the arena whether anything else waits: other nodes of the
/// graph get a thread within this time, and coming back costs a thousandth of it.
constexpr auto stint = std::chrono::milliseconds(1);
/// Looks at an empty counter, some 80 microseconds of them, before a waiting thread offers its core
/// to others: on a busy machine it gets it back milliseconds later.
constexpr int patience = 4000;
/// After how long a helper that was called and has not come is called again. It comes within 150
/// microseconds, even out of sleep, or not at all: TBB may miss the call where it comes while the
/// thread falls asleep (it never promises parallelism), and would leave the caller alone until the
/// end of the step.
constexpr auto arrival = std::chrono::microseconds(200);

/// Spins for a while, then lets others run between two looks.
class waiting {
  public:
    void look_again() {
        if (++looks_ < patience) {
            pause();
        } else {
            std::this_thread::yield();
        }
    }
    void found() { looks_ = 0; }

  private:
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    int looks_ = 0;
};

}  // namespace

/// The caller of together() and who helps it. The indices of one piece of work are divided evenly
/// among the slots; a thread takes those of its own slot and then what others have left, so that
/// neighbouring tiles of weights are mostly read by one thread, in order.
class task_runner::crew {
  public:
    explicit crew(int slots) : places_(static_cast<std::size_t>(slots)) {}

    void open() {
        helpers_.emplace();
        open_.store(true, std::memory_order_release);
    }

    /// Those helpers that never came find nothing to do.
    void close() {
        open_.store(false, std::memory_order_release);
        helpers_->wait();
        helpers_.reset();
    }

    bool is_open() const { return open_.load(std::memory_order_relaxed); }

    void run(int count, void* self, void (*call)(void*, int, int)) {
        self_ = self;
        call_ = call;
        left_.store(count, std::memory_order_relaxed);
        const auto slots = static_cast<std::int64_t>(places_.size());
        for (std::int64_t slot = 0; slot < slots; ++slot) {
            const auto begin = static_cast<std::uint64_t>(count * slot / slots),
                       end = static_cast<std::uint64_t>(count * (slot + 1) / slots);
            places_[static_cast<std::size_t>(slot)].ticket.store(end << 32 | begin,
                                                                 std::memory_order_release);
        }
        int done = take_all(0);
        waiting wait;
        while (left_.load(std::memory_order_acquire) != done) wait.look_again();
        if (!failure_) return;
        failed_.clear();
        std::rethrow_exception(std::exchange(failure_, nullptr));
    }

  private:
    enum class presence { away, called, here };

    /// A slot's tasks: the next one in the lower half, the end in the upper one. Who adds 1 and
    /// finds the old value below the end has a task, and until it is done the caller waits, so that
    /// self_ and call_ are those of this piece of work however late the taker came.
    struct alignas(64) place {
        std::atomic<std::uint64_t> ticket{0};
        std::atomic<presence> helper{presence::away};
        clock::time_point called_at;  // the caller's
    };

    /// So that each slot has a helper or one on its way.
    void call_helpers() {
        if (here_.load(std::memory_order_relaxed) + 1 == static_cast<int>(places_.size())) return;
        for (std::size_t slot = 1; slot < places_.size(); ++slot) {
            place& at = places_[slot];
            const presence helper = at.helper.load(std::memory_order_acquire);
            if (helper == presence::here) continue;
            const auto now = clock::now();
            if (helper == presence::away) {
                at.helper.store(presence::called, std::memory_order_relaxed);
                helpers_->run([this, slot] { help(slot); });
            } else if (now - at.called_at > arrival) {
                helpers_->run([] {});  // any task wakes the thread, which finds the first one, too
            } else {
                continue;
            }
            at.called_at = now;
        }
    }

    void help(std::size_t slot) {
        places_[slot].helper.store(presence::here, std::memory_order_relaxed);
        here_.fetch_add(1, std::memory_order_relaxed);
        const auto end = clock::now() + stint;
        waiting wait;
        while (open_.load(std::memory_order_acquire) && clock::now() < end) {
            if (const int done = take_all(slot); done > 0) {
                left_.fetch_sub(done, std::memory_order_release);
                wait.found();
            } else {
                wait.look_again();
            }
        }
        here_.fetch_sub(1, std::memory_order_relaxed);
        places_[slot].helper.store(presence::away, std::memory_order_release);
    }

    /// Returns: how many tasks it ran.
    int take_all(std::size_t slot) {
        int done = 0;
        for (std::size_t i = 0; i < places_.size(); ++i) {
            std::atomic<std::uint64_t>& ticket = places_[(slot + i) % places_.size()].ticket;
            while (has_task(ticket.load(std::memory_order_relaxed))) {
                if (slot == 0) call_helpers();
                const std::uint64_t taken = ticket.fetch_add(1, std::memory_order_acquire);
                if (!has_task(taken)) break;
                run_one(static_cast<int>(taken & next_mask), static_cast<int>(slot));
                ++done;
            }
        }
        return done;
    }

    void run_one(int index, int slot) noexcept {
        try {
            call_(self_, index, slot);
        } catch (...) {
            if (!failed_.test_and_set()) failure_ = std::current_exception();
        }
    }

    static constexpr std::uint64_t next_mask = 0xffffffffu;
    static bool has_task(std::uint64_t ticket) { return (ticket & next_mask) < ticket >> 32; }

    std::vector<place> places_;
    void* self_ = nullptr;
    void (*call_)(void*, int, int) = nullptr;
    alignas(64) std::atomic<int> left_{0};  // tasks that helpers have not reported
    std::atomic<bool> open_{false};
    std::atomic<int> here_{0};  // helpers that are
    std::atomic_flag failed_;
    std::exception_ptr failure_;
    std::optional<tbb::task_group> helpers_;
};

task_runner::task_runner(int slots)
    : slots_(slots > 0 ? slots : std::max(1, tbb::this_task_arena::max_concurrency())),
      crew_(std::make_unique<crew>(slots_)) {}

task_runner::~task_runner() = default;

void task_runner::run_parallel(int count, void* self, void (*call)(void*, int, int)) const {
    if (crew_->is_open()) return crew_->run(count, self, call);
    together([&] { crew_->run(count, self, call); });
}

void task_runner::run_together(void* self, void (*call)(void*)) const {
    tbb::this_task_arena::isolate([&] {
        crew_->open();
        try {
            call(self);
        } catch (...) {
            crew_->close();
            throw;
        }
        crew_->close();
    });
}

}  // namespace semantic::engine

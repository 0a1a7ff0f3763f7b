// SPDX-License-Identifier: Apache-2.0
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

/// How long a helper stays before it returns to the arena, so that other nodes of the graph get a
/// thread within this time. Rejoining costs a thousandth of it.
constexpr auto help_slice = std::chrono::milliseconds(1);
/// How often a waiting thread spins before it yields, which takes some 80 microseconds: on a busy
/// machine a thread that yields gets its core back only milliseconds later.
constexpr int spins_before_yield = 4000;
/// A helper that was called and has not arrived after this time is called again. A woken thread
/// arrives within 150 microseconds or not at all: TBB may miss a call made while the thread falls
/// asleep (it never promises parallelism), and would leave the caller alone until the end of the
/// step.
constexpr auto wake_timeout = std::chrono::microseconds(200);

/// Waits between two looks at a condition: spins at first, and yields later.
class spin_wait {
  public:
    void pause_once() {
        if (++spins_ < spins_before_yield) {
            pause();
        } else {
            std::this_thread::yield();
        }
    }
    void reset() { spins_ = 0; }

  private:
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    int spins_ = 0;
};

}  // namespace

/// The caller of together() and its helper threads. The indices of one piece of work are divided
/// evenly among the slots; a thread takes those of its own slot, then steals from other slots, so
/// that neighbouring tiles of weights are mostly read by one thread, in order.
class task_runner::crew {
  public:
    explicit crew(int slots) : places_(static_cast<std::size_t>(slots)) {}

    /// Lets helpers be called until close().
    void open() {
        helpers_.emplace();
        open_.store(true, std::memory_order_release);
    }

    /// Waits until all helpers have left. Those that arrive later find nothing to do.
    void close() {
        open_.store(false, std::memory_order_release);
        helpers_->wait();
        helpers_.reset();
    }

    bool is_open() const { return open_.load(std::memory_order_relaxed); }

    /// Runs call(self, index, slot) for each index below `count`, on this thread and the helpers,
    /// and waits for all of them. Throws the first exception of a call after that.
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
        // Done by this thread; helpers count theirs off left_.
        int done = take_all(0);
        spin_wait wait;
        while (left_.load(std::memory_order_acquire) != done) wait.pause_once();
        if (!failure_) return;
        failed_.clear();
        std::rethrow_exception(std::exchange(failure_, nullptr));
    }

  private:
    /// Whether a slot's helper is away, was called and is on its way, or is at work.
    enum class presence { away, called, here };

    /// A slot's tasks: the next index in the lower half of the ticket, the end in the upper half. A
    /// thread that adds 1 and finds the old index below the end owns that task. The caller waits
    /// for every task, so self_ and call_ belong to this piece of work however late a thread takes
    /// one.
    struct alignas(64) place {
        std::atomic<std::uint64_t> ticket{0};
        std::atomic<presence> helper{presence::away};
        clock::time_point called_at;  // written and read by the caller alone
    };

    /// Calls a helper for each slot that has none at work or on its way, and again for one that
    /// does not arrive. Only the caller's thread does this.
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
            } else if (now - at.called_at > wake_timeout) {
                helpers_->run([] {});  // any task wakes the thread, which finds the first one, too
            } else {
                continue;
            }
            at.called_at = now;
        }
    }

    /// A helper's work: takes tasks until the crew is closed or its time is over (help_slice).
    void help(std::size_t slot) {
        places_[slot].helper.store(presence::here, std::memory_order_relaxed);
        here_.fetch_add(1, std::memory_order_relaxed);
        const auto end = clock::now() + help_slice;
        spin_wait wait;
        while (open_.load(std::memory_order_acquire) && clock::now() < end) {
            if (const int done = take_all(slot); done > 0) {
                left_.fetch_sub(done, std::memory_order_release);
                wait.reset();
            } else {
                wait.pause_once();
            }
        }
        here_.fetch_sub(1, std::memory_order_relaxed);
        places_[slot].helper.store(presence::away, std::memory_order_release);
    }

    /// Runs tasks of this slot, then those of the slots after it, until none is left to take.
    /// Returns: how many it ran.
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

    /// Runs one task. An exception is kept for run(), if it is the first.
    void run_one(int index, int slot) noexcept {
        try {
            call_(self_, index, slot);
        } catch (...) {
            if (!failed_.test_and_set()) failure_ = std::current_exception();
        }
    }

    static constexpr std::uint64_t next_mask = 0xffffffffu;
    static bool has_task(std::uint64_t ticket) { return (ticket & next_mask) < ticket >> 32; }

    std::vector<place> places_;  // one for each slot; slot 0 is the caller's
    // Of the work that runs now, as run() got them.
    void* self_ = nullptr;
    void (*call_)(void*, int, int) = nullptr;
    alignas(64) std::atomic<int> left_{0};  // tasks that helpers have not reported
    std::atomic<bool> open_{false};
    std::atomic<int> here_{0};  // helpers at work
    // Whether a task has thrown, and the first exception.
    std::atomic_flag failed_;
    std::exception_ptr failure_;
    std::optional<tbb::task_group> helpers_;  // from open() to close()
};

task_runner::task_runner(int slots)
    : slots_(slots > 0 ? slots : std::max(1, tbb::this_task_arena::max_concurrency())),
      crew_(std::make_unique<crew>(slots_)) {}

task_runner::~task_runner() = default;

void task_runner::run_parallel(int count, void* self, void (*call)(void*, int, int)) const {
    // Within together() the helpers are there already.
    if (crew_->is_open()) return crew_->run(count, self, call);
    together([&] { crew_->run(count, self, call); });
}

/// Opens the crew for the body, and closes it also when that throws. Isolated, so that a wait in
/// the body takes no other task of the arena.
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

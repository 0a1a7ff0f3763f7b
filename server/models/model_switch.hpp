// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loads a model into one slot, or exchanges it: drain, save, release, load, verify by a generation.
// Where that fails, the former model is loaded again. One exchange at a time, on a thread of its
// own, in the steps of engines/slot_state. Owner: app. Thread: any; the callbacks run on the
// switch's thread.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/engine.hpp"
#include "protocol/wire/errc.hpp"
#include "server/engines/engine_slot.hpp"

namespace semantic::server {

/// Makes the engine of a model, and reports how far the load is. Blocks. Errors: why it cannot be
/// loaded.
using model_loader = std::function<storage::result<std::unique_ptr<engine::engine>>(
    std::size_t model, const std::function<void(engine::load_progress)>& progress)>;

struct switch_options {
    model_loader load;
    /// Called when an exchange is over, with the state at its end; may be empty.
    std::function<void(const slot_state&)> on_settled;
    /// Called with the state of every step, for the log; may be empty.
    std::function<void(const slot_state&)> on_step;
    /// How long cancelled requests have to notify their clients before their connections are cut.
    std::chrono::milliseconds farewell{2000};
    /// How long cut requests have to give their engine back.
    std::chrono::milliseconds patience{5000};
    /// How long the first answer of a loaded model may take.
    std::chrono::milliseconds answer_time{60'000};
};

class model_switch {
  public:
    model_switch(engine_slot& slot, switch_options options);
    ~model_switch();
    model_switch(const model_switch&) = delete;
    model_switch& operator=(const model_switch&) = delete;

    /// Begins to load `model`, in place of the present one if there is one; nothing: unloads.
    /// Running requests may go on for `drain`, then they are cancelled. Returns at once: the number
    /// of the change (engine_slot::change); of the last one where the model is already loaded.
    /// Errors: conflict while another exchange is under way; shutting_down.
    protocol::result<std::uint64_t> ask(std::optional<std::size_t> model,
                                        std::chrono::milliseconds drain);
    /// Begins no further step; a step that waits for requests ends at `until`. Returns: the phase
    /// in which the slot stays.
    slot_phase close(std::chrono::steady_clock::time_point until);
    /// Blocks until the running step has ended. Requires: close().
    void join();

    std::uint64_t exchanges_done() const noexcept { return done_.load(); }
    std::uint64_t exchanges_failed() const noexcept { return failed_.load(); }

  private:
    /// The thread of one exchange: does the work of each phase until the slot is settled.
    void run(std::chrono::steady_clock::time_point drain_until);
    /// Does the work of the present phase. Returns: whether it succeeded.
    slot_event work(const slot_state& now, std::chrono::steady_clock::time_point drain_until);
    slot_event load(const slot_state& now);
    slot_event verify();
    slot_event drain(std::chrono::steady_clock::time_point until);
    slot_event save();
    slot_event release();

    engine_slot& slot_;
    const switch_options options_;
    std::mutex mutex_;
    std::thread thread_;  // guarded by mutex_
    std::atomic<bool> closed_{false};
    std::atomic<std::uint64_t> done_{0};
    std::atomic<std::uint64_t> failed_{0};
};

/// Has the engine answer a short prompt as a test, and forget it. Returns: empty, or why that
/// failed. Gives up after `time`, or early when `hurry` becomes true. Blocks.
std::string prove_by_answer(engine::engine& engine, std::chrono::milliseconds time,
                            const std::atomic<bool>& hurry);

}  // namespace semantic::server

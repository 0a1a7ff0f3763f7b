// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loads models into the slot, and exchanges them: drain, save, release, load, verify by a
// generation; what breaks brings the former model back. One exchange at a time, on a thread of its
// own, step by step as engines/slot_state says.
// Owner: app. Thread: any; the callbacks run on the switch's thread.

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

/// Blocks. Makes the engine of a model, telling how far it is.
using model_loader = std::function<storage::result<std::unique_ptr<engine::engine>>(
    std::size_t model, const std::function<void(engine::load_progress)>& progress)>;

struct switch_options {
    model_loader load;
    /// A state in which nothing more happens was reached; may be empty.
    std::function<void(const slot_state&)> on_settled;
    /// Every step, for the log; may be empty.
    std::function<void(const slot_state&)> on_step;
    /// The time that cancelled requests have to notify their clients before they are cut.
    std::chrono::milliseconds farewell{2000};
    /// For those that were cut to be gone.
    std::chrono::milliseconds patience{5000};
    /// What the first answer of a model may take.
    std::chrono::milliseconds answer_time{60'000};
};

class model_switch {
  public:
    model_switch(engine_slot& slot, switch_options options);
    ~model_switch();
    model_switch(const model_switch&) = delete;
    model_switch& operator=(const model_switch&) = delete;

    /// Begins to load, to exchange, or without a model to unload: requests that run may go on for
    /// `drain`, then they are cancelled. Returns at once: the number of the slot's change, which is
    /// the last one where it is so already. Errors: conflict while another exchange is under way;
    /// shutting_down.
    protocol::result<std::uint64_t> ask(std::optional<std::size_t> model,
                                        std::chrono::milliseconds drain);
    /// No step is begun any more; waits for requests end at `until`. Returns: the phase that the
    /// slot stays in.
    slot_phase close(std::chrono::steady_clock::time_point until);
    /// Blocks until the step that is under way has ended. Requires: close().
    void join();

    std::uint64_t exchanges_done() const noexcept { return done_.load(); }
    std::uint64_t exchanges_failed() const noexcept { return failed_.load(); }

  private:
    void run(std::chrono::steady_clock::time_point drain_until);
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

/// Blocks. Has the engine answer a short conversation, and forget it. Returns: empty, or why that
/// did not succeed. Gives up early when `hurry` says so.
std::string prove_by_answer(engine::engine& engine, std::chrono::milliseconds time,
                            const std::atomic<bool>& hurry);

}  // namespace semantic::server

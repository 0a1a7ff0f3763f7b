// SPDX-License-Identifier: Apache-2.0
#pragma once
// The place of the engine that serves: what it is about (slot_state), who may use the engine, and
// how far a load is. Requests hold leases, and the engine is only taken out when none is left.
// Owner: app. Thread: any, but for what is marked "Driver.": models/model_switch alone calls that.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "engine/engine.hpp"
#include "server/engines/slot_state.hpp"

namespace semantic::server {

class engine_slot;

/// Keeps an engine in its slot for as long as this, or a copy, lives. Empty: there is none.
class engine_lease {
  public:
    engine_lease() = default;
    explicit operator bool() const noexcept { return hold_ != nullptr; }
    /// Requires: not empty.
    engine::engine* operator->() const noexcept;
    engine::engine& operator*() const noexcept { return *operator->(); }
    /// The model of the engine, as an index of the registry. Requires: not empty.
    std::size_t model() const noexcept;
    /// `cut` is called, from any thread, when the lease must end now. It must not block.
    void when_cut(std::function<void()> cut) const;

  private:
    friend class engine_slot;
    struct hold;
    explicit engine_lease(std::shared_ptr<hold> held) : hold_(std::move(held)) {}
    std::shared_ptr<hold> hold_;
};

class engine_slot {
  public:
    /// `begin`: idle for the slot of the server's first model, empty for the others.
    explicit engine_slot(slot_phase begin = slot_phase::idle) { state_.phase = begin; }
    engine_slot(const engine_slot&) = delete;
    engine_slot& operator=(const engine_slot&) = delete;

    /// Returns: the engine for a request; empty unless the slot is ready.
    engine_lease lease();
    /// Returns: the engine for reading its state, which does not count as a request; also while it
    /// drains and saves. Else empty.
    engine_lease look();
    slot_state state() const;
    /// Every state of the change that is under way, or of the last one, from its beginning. A
    /// caller that polls sees phases here that came and went between two polls.
    std::vector<slot_state> path() const;
    /// The number of the change of models that is under way, or was the last one; 0: there was
    /// none.
    std::uint64_t change() const;
    /// The state in which change number `change` ended, also when the next one has begun; nothing
    /// while it is under way. Only the latest changes are remembered.
    std::optional<slot_state> outcome(std::uint64_t change) const;
    /// Since when no request has had the engine; nothing while one has it. Looks do not count.
    std::optional<std::chrono::steady_clock::time_point> idle_since() const;
    engine::load_progress progress() const;
    /// Sets what progress() returns.
    void report(engine::load_progress progress);
    /// How many leases are held, those for looking at the engine included.
    std::size_t leases() const;

    /// Changes the state as next_state() says. Returns: the new state; nothing when the event does
    /// not fit the present state, or after close().
    std::optional<slot_state> step(const slot_event& event);
    /// The server stops: step() does nothing from now on. Returns: the present phase.
    slot_phase close();

    /// Driver. Puts the loaded engine in. Requires: loading.
    void put(std::unique_ptr<engine::engine> loaded);
    /// The engine, without a lease; null: there is none. Driver, or anybody once the driver has
    /// ended.
    engine::engine* own() const;
    /// Driver. Takes the engine out. Requires: releasing, no leases; none are given in that phase.
    std::unique_ptr<engine::engine> take();
    /// Driver. Blocks until no lease is held. Returns: false when that is not so by `until`, or by
    /// the time that hurry() set.
    bool wait_for_leases(std::chrono::steady_clock::time_point until);
    /// Makes wait_for_leases() end at `until` at the latest.
    void hurry(std::chrono::steady_clock::time_point until);
    /// Driver. Calls the `cut` function of every lease (engine_lease::when_cut).
    void cut_leases();

  private:
    friend class engine_lease;
    friend struct engine_lease::hold;
    /// A lease where there is an engine and `may` allows the phase; else empty. `is_request`: it
    /// counts for idle_since().
    engine_lease lease_if(bool (*may)(slot_phase), bool is_request);

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    slot_state state_;              // guarded by mutex_, as is all below
    std::vector<slot_state> path_;  // its last is state_, once a model was asked for
    std::uint64_t change_ = 0;
    std::map<std::uint64_t, slot_state> outcomes_;  // by change; the latest
    bool closed_ = false;
    std::optional<std::chrono::steady_clock::time_point> hurry_;
    engine::load_progress progress_{"starting", 0.0};
    std::unique_ptr<engine::engine> engine_;
    std::set<engine_lease::hold*> holds_;
    std::size_t requests_ = 0;  // part of holds_
    std::chrono::steady_clock::time_point last_request_;
};

}  // namespace semantic::server

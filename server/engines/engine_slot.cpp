// SPDX-License-Identifier: Apache-2.0
#include "server/engines/engine_slot.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

namespace semantic::server {

namespace {

/// How many changes outcome() knows of.
constexpr std::size_t outcomes_max = 64;

}  // namespace

/// What the copies of a lease share. The last copy's end unregisters it with the slot.
struct engine_lease::hold {
    hold(engine_slot& owner, engine::engine* engine, std::size_t number, bool request)
        : slot(owner), held(engine), model(number), is_request(request) {}
    ~hold() {
        std::lock_guard lock(slot.mutex_);
        slot.holds_.erase(this);
        if (is_request && --slot.requests_ == 0)
            slot.last_request_ = std::chrono::steady_clock::now();
        // Notify under the lock: a waiting thread may destroy the slot as soon as it is released.
        slot.changed_.notify_all();
    }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

    engine_slot& slot;
    engine::engine* const held;
    const std::size_t model;
    const bool is_request;
    std::function<void()> cut;  // guarded by slot.mutex_
};

engine::engine* engine_lease::operator->() const noexcept {
    assert(hold_ != nullptr);
    return hold_->held;
}

std::size_t engine_lease::model() const noexcept {
    assert(hold_ != nullptr);
    return hold_->model;
}

void engine_lease::when_cut(std::function<void()> cut) const {
    if (hold_ == nullptr) return;
    std::lock_guard lock(hold_->slot.mutex_);
    hold_->cut = std::move(cut);
}

engine_lease engine_slot::lease_if(bool (*may)(slot_phase), bool is_request) {
    std::lock_guard lock(mutex_);
    if (engine_ == nullptr || !may(state_.phase)) return {};
    auto held = std::make_shared<engine_lease::hold>(*this, engine_.get(), state_.model.value_or(0),
                                                     is_request);
    holds_.insert(held.get());
    if (is_request) ++requests_;
    return engine_lease(std::move(held));
}

engine_lease engine_slot::lease() {
    return lease_if([](slot_phase phase) { return phase == slot_phase::ready; }, true);
}

engine_lease engine_slot::look() { return lease_if(has_engine, false); }

std::optional<std::chrono::steady_clock::time_point> engine_slot::idle_since() const {
    std::lock_guard lock(mutex_);
    if (requests_ > 0) return std::nullopt;
    return last_request_;
}

slot_state engine_slot::state() const {
    std::lock_guard lock(mutex_);
    return state_;
}

std::vector<slot_state> engine_slot::path() const {
    std::lock_guard lock(mutex_);
    return path_;
}

std::uint64_t engine_slot::change() const {
    std::lock_guard lock(mutex_);
    return change_;
}

std::optional<slot_state> engine_slot::outcome(std::uint64_t change) const {
    std::lock_guard lock(mutex_);
    const auto found = outcomes_.find(change);
    if (found == outcomes_.end()) return std::nullopt;
    return found->second;
}

engine::load_progress engine_slot::progress() const {
    std::lock_guard lock(mutex_);
    return progress_;
}

void engine_slot::report(engine::load_progress progress) {
    std::lock_guard lock(mutex_);
    progress_ = std::move(progress);
}

std::size_t engine_slot::leases() const {
    std::lock_guard lock(mutex_);
    return holds_.size();
}

std::optional<slot_state> engine_slot::step(const slot_event& event) {
    std::lock_guard lock(mutex_);
    if (closed_) return std::nullopt;
    auto next = next_state(state_, event);
    if (!next) return std::nullopt;
    if (next->phase == slot_phase::loading) progress_ = {"starting", 0.0};
    state_ = *next;
    if (std::holds_alternative<slot_asked>(event)) {
        path_.clear();
        ++change_;
    }
    path_.push_back(state_);
    if (is_settled(state_.phase)) outcomes_.insert_or_assign(change_, state_);
    if (outcomes_.size() > outcomes_max) outcomes_.erase(outcomes_.begin());
    return next;
}

slot_phase engine_slot::close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    return state_.phase;
}

void engine_slot::put(std::unique_ptr<engine::engine> loaded) {
    std::lock_guard lock(mutex_);
    assert(engine_ == nullptr && state_.phase == slot_phase::loading);
    engine_ = std::move(loaded);
}

engine::engine* engine_slot::own() const {
    std::lock_guard lock(mutex_);
    return engine_.get();
}

std::unique_ptr<engine::engine> engine_slot::take() {
    std::lock_guard lock(mutex_);
    assert(state_.phase == slot_phase::releasing && holds_.empty());
    return std::exchange(engine_, nullptr);
}

bool engine_slot::wait_for_leases(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    while (!holds_.empty()) {
        const auto end = hurry_ ? std::min(until, *hurry_) : until;
        if (std::chrono::steady_clock::now() >= end) return false;
        changed_.wait_until(lock, end);
    }
    return true;
}

void engine_slot::hurry(std::chrono::steady_clock::time_point until) {
    std::lock_guard lock(mutex_);
    hurry_ = until;
    changed_.notify_all();
}

void engine_slot::cut_leases() {
    std::vector<std::function<void()>> cuts;
    {
        std::lock_guard lock(mutex_);
        for (const engine_lease::hold* each : holds_)
            if (each->cut) cuts.push_back(each->cut);
    }
    // Without the lock: they may give their leases back.
    for (const auto& cut : cuts) cut();
}

}  // namespace semantic::server

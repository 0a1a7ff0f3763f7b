// SPDX-License-Identifier: Apache-2.0
#include "server/engines/slot_state.hpp"

#include <utility>

namespace semantic::server {

namespace {

using enum slot_phase;

/// The state of loading `model`. `former`: the model to load again if this fails. `why`: the fault
/// that led here; empty: none.
slot_state loading_of(std::size_t model, std::optional<std::size_t> former, std::string why) {
    slot_state state{loading};
    state.model = model;
    state.former = former;
    state.why = std::move(why);
    return state;
}

/// What follows when somebody asks for a model, or for none (`wanted` empty).
std::optional<slot_state> asked(const slot_state& now, std::optional<std::size_t> wanted) {
    if (now.phase == idle && wanted) {
        slot_state first = loading_of(*wanted, std::nullopt, {});
        first.is_start = true;
        return first;
    }
    if (now.phase == failed || now.phase == empty)
        return wanted ? std::optional(loading_of(*wanted, std::nullopt, {})) : std::nullopt;
    if (now.phase != ready || now.model == wanted) return std::nullopt;
    slot_state state{draining};
    state.model = now.model;
    state.target = wanted;
    return state;
}

/// What follows when the work of the present phase has succeeded.
std::optional<slot_state> done(const slot_state& now) {
    slot_state state = now;
    switch (now.phase) {
        case loading:
            state.phase = now.is_start ? ready : verifying;
            state.is_start = false;
            return state;
        case verifying:
            state.phase = ready;
            state.former.reset();
            return state;
        case draining:
            state.phase = saving;
            return state;
        case saving:
            state.phase = releasing;
            return state;
        case releasing:
            if (!now.target && now.why.empty()) return slot_state{empty};
            if (!now.target) return slot_state{failed, {}, {}, {}, false, now.why};
            // A fault (`why`) means that this load restores the former model; if it fails, too,
            // there is no other to go back to.
            return loading_of(*now.target, now.why.empty() ? now.model : std::nullopt, now.why);
        case idle:
        case ready:
        case failed:
        case empty:
            return std::nullopt;
    }
    return std::nullopt;
}

/// What follows when the work of the present phase has failed.
std::optional<slot_state> broke(const slot_state& now, const std::string& why) {
    const std::string all = now.why.empty() ? why : now.why + "; " + why;
    slot_state state;
    switch (now.phase) {
        case loading:
            if (now.former) return loading_of(*now.former, std::nullopt, all);
            return slot_state{failed, {}, {}, {}, false, all};
        case verifying:
            state.phase = releasing;
            state.model = now.model;
            state.target = now.former;
            state.why = all;
            return state;
        case releasing:
            // A fault before means that this model broke in verifying: it is not made ready again
            // but released once that succeeds.
            if (!now.why.empty()) return now;
            [[fallthrough]];
        case saving:
            state.phase = ready;
            state.model = now.model;
            state.why = all;
            return state;
        case draining:
        case idle:
        case ready:
        case failed:
        case empty:
            return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

const char* to_string(slot_phase phase) noexcept {
    switch (phase) {
        case idle:
            return "idle";
        case loading:
            return "loading";
        case verifying:
            return "verifying";
        case ready:
            return "ready";
        case draining:
            return "draining";
        case saving:
            return "saving";
        case releasing:
            return "releasing";
        case failed:
            return "failed";
        case empty:
            return "empty";
    }
    return "unknown";
}

std::optional<slot_state> next_state(const slot_state& now, const slot_event& event) {
    if (const auto* wish = std::get_if<slot_asked>(&event)) return asked(now, wish->model);
    if (const auto* fault = std::get_if<slot_broke>(&event)) return broke(now, fault->why);
    return done(now);
}

bool is_settled(slot_phase phase) noexcept {
    return phase == idle || phase == ready || phase == failed || phase == empty;
}

bool has_engine(slot_phase phase) noexcept {
    return phase == ready || phase == draining || phase == saving;
}

}  // namespace semantic::server

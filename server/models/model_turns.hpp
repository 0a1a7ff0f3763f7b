#pragma once
// Whose turn it is, where requests wait for models that are not loaded: one model at a time is
// served, until none of its requests is left for as long as a change takes, or until another one
// has waited for a whole turn. Pure.
//
// The models that wait come in the order of their oldest requests, and what comes for a model that
// has had its turn is younger than all that waits. So none is passed over by another one twice: of
// n models each waits at most for n - 1 turns, and n times for answers to end and for a change.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

namespace semantic::server {

/// A model that is not loaded and that somebody waits for.
struct waiting_model {
    std::size_t model = 0;
    std::chrono::steady_clock::time_point since;  // of its oldest request
};

struct turn_rules {
    std::chrono::milliseconds turn{0};
    /// How long a model without requests keeps its turn. As long as a change takes: then no more
    /// than twice the time is lost that somebody lost who knew what comes.
    std::chrono::milliseconds linger{0};
    std::chrono::milliseconds idle_max{0};  // 0: a model stays without requests for ever
};

struct turn_state {
    std::chrono::steady_clock::time_point now;
    std::chrono::steady_clock::time_point ready_since;
    /// Since when nobody uses the loaded model; nothing while somebody does.
    std::optional<std::chrono::steady_clock::time_point> idle_since;
    std::span<const waiting_model> waiting;  // the loaded one is not among them
};

struct turn_decision {
    bool may_begin = true;  // requests for the loaded model; those that run go on
    std::optional<std::size_t> next{};
    bool unloads = false;
};

/// While a model is loaded and none is being changed.
turn_decision decide_turn(const turn_state& state, const turn_rules& rules);

}  // namespace semantic::server

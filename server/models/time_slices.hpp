// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time slices of models, where requests wait for models that are not loaded: one model at a time is
// served, until it has had no requests for as long as a change takes, or until another model has
// waited for a whole slice. Pure.
//
// The models that wait come in the order of their oldest requests, and a request for a model whose
// slice has ended is younger than all that wait. So no model is passed over by another one twice:
// of n models each waits at most for n - 1 slices, and n times for answers to end and for a change.

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

struct slice_rules {
    std::chrono::milliseconds slice{0};
    /// How long a model without requests keeps its slice. As long as a change takes: then at most
    /// twice as much time is lost as with knowledge of the requests to come.
    std::chrono::milliseconds linger{0};
    std::chrono::milliseconds idle_max{0};  // 0: a model stays without requests for ever
};

struct slice_state {
    std::chrono::steady_clock::time_point now;
    std::chrono::steady_clock::time_point ready_since;
    /// Since when nobody uses the loaded model; nothing while somebody does.
    std::optional<std::chrono::steady_clock::time_point> idle_since;
    std::span<const waiting_model> waiting;  // the loaded one is not among them
};

struct slice_decision {
    bool may_begin = true;  // whether requests for the loaded model may begin; running ones go on
    std::optional<std::size_t> next{};  // the model to load in its place
    bool unloads = false;               // whether the model is to be unloaded
};

/// Decides what happens to a loaded model now. Requires: no slot is changing.
slice_decision decide_slice(const slice_state& state, const slice_rules& rules);

}  // namespace semantic::server

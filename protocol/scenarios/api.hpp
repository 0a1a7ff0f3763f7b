// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bodies of /v1/coordination/scenarios and the events of a run. Pure.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/scenarios/phase_opening.hpp"
#include "protocol/scenarios/scenario.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::scenarios {

struct run_request {
    std::optional<std::string> yaml{};  // a scenario of the client's, in place of a shipped one
    std::string prefix{};               // of permanent agents' memories; empty: the run's own
    bool is_persistent = true;          // or every phase begins with agents that know nothing
    bool rereads = false;  // in every phase agents read again what they know: for measurements
};
/// Parses {"yaml", "persistent_cache_prefix", "persistent", "reread"}; parse_turn() reads the other
/// fields of the body, about how agents answer. Errors: as read_object(); bad_value.
result<run_request> parse_run(std::string_view body, const json_limits& limits = {});

std::string scenarios_body(std::span<const scenario> all);

// Server-sent events around those of the turns and rounds of each phase: run_start, phase_start,
// phase_complete, run_complete.
std::string run_start_event(std::string_view run_id, const scenario& scenario);
std::string phase_start_event(const phase& phase, const coordination::session& made);
std::string phase_complete_event(const phase& phase, const coordination::session& over);
std::string run_complete_event(std::string_view run_id, const run_result& came);
/// The last event of a run that was cancelled.
std::string run_stopped_event(std::string_view run_id);

/// The progress of a run.
struct run_state {
    struct phase_state {
        std::string name;
        std::string session_id;
        int turns = 0;
        bool is_begun = false;
        bool is_over = false;
    };
    std::string id;
    std::string scenario_id;
    bool is_driven = false;
    std::vector<phase_state> phases{};
    bool is_over = false;              // all phases are
    std::optional<run_result> came{};  // once they are, and it was read
};
std::string run_body(const run_state& run);

}  // namespace semantic::protocol::scenarios

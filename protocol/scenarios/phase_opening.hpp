// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a scenario's phase to the session that it is, and what came of a run. Pure.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/coordination/opening.hpp"
#include "protocol/scenarios/scenario.hpp"

namespace semantic::protocol::scenarios {

/// The sessions of the phases that are over, by the phase's name. Only the lines that spoken_of()
/// keeps are needed.
using phases_done = std::map<std::string, coordination::session>;
/// Returns: a copy of the session with only the lines that agents said to all.
coordination::session spoken_of(const coordination::session& said);
/// Returns: the names of the phases that opening_of() quotes.
std::set<std::string> phases_quoted(const phase& phase);

/// Returns: the id of a scenario's agent, scn_{scenario}_{key}.
std::string agent_id_of(const scenario& scenario, std::string_view key);

/// Returns: `text` with each reference replaced by a quote: a line for each public message of the
/// phase, as "Name: content", the referenced agent's own as "You: content"; "(no messages yet)" for
/// a phase without any. A phase that the reader has in its memory, as `remembers(phase)` says, is
/// not quoted. The whole has at most coordination::prompt_characters_max characters: the earliest
/// lines that do not fit are left out, and a note says so.
std::string quoted_for(const scenario& scenario, std::string_view text, const phases_done& done,
                       const std::function<bool(const phase&)>& remembers);

/// Returns: the session of a phase and what its agents read first. `prefix`: of the memories of its
/// permanent agents; empty: no agent remembers an earlier phase.
coordination::opening opening_of(const scenario& scenario, const phase& opened,
                                 std::string session_id, std::string prefix,
                                 const phases_done& done);

struct run_result {
    /// parse_choice: what each participant of the last phase chose last, in it or before it, by
    /// name. vote_tally: questions of the last phase and winners.
    std::vector<std::pair<std::string, std::string>> choices{};
    std::string text{};                  // summary: the last that was said
    std::optional<std::string> worth{};  // of the payoff's matrix, where two have chosen
};
/// Returns: the result of a run. Requires: the last phase is over.
run_result result_of(const scenario& scenario, const phases_done& done);

}  // namespace semantic::protocol::scenarios

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

/// The sessions of the phases that are over, by the phase's name. Of their lines those that
/// spoken_of() has are enough.
using phases_done = std::map<std::string, coordination::session>;
/// A copy with what the agents said to all.
coordination::session spoken_of(const coordination::session& said);
/// The phases that opening_of() quotes.
std::set<std::string> phases_quoted(const phase& phase);

/// scn_{scenario}_{key}
std::string agent_id_of(const scenario& scenario, std::string_view key);

/// `text` with its references as quotes: a line for each public message of the phase, as "Name:
/// content", the referenced agent's own as "You: content"; "(no messages yet)" for a phase without.
/// What `remembers(phase)` says the reader was part of, and so has in its memory, is quoted to it
/// as nothing. The whole has at most coordination::prompt_characters_max characters: of what has no
/// place there the earliest lines are left out, and the text says so.
std::string quoted_for(const scenario& scenario, std::string_view text, const phases_done& done,
                       const std::function<bool(const phase&)>& remembers);

/// The session of a phase. `prefix`: of its permanent agents' memories; empty: nobody remembers
/// anything from an earlier phase. `remembers(key)`: whether this agent has the memory of earlier
/// phases.
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
/// The result of the phases. Requires: the last one is done.
run_result result_of(const scenario& scenario, const phases_done& done);

}  // namespace semantic::protocol::scenarios

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The speaking orders of the debate formats, and which agent speaks next. Pure.

#include <optional>
#include <string>
#include <vector>

#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::coordination {

/// One position in the speaking order of a round.
struct slot {
    int agent = nobody;
    std::string cue{};  // what the format asks of the speaker there; empty: nothing
};

/// The places of a round, counted from 0, in order. Observers have none.
/// - free_form: as the agents are listed.
/// - structured: moderators, participants, critics; statements, then rebuttals, and in the last
///   round (where max_turns says which that is) closing words.
/// - socratic: the questioner (the first moderator, else critic, else speaker) before each of the
///   others.
/// - devils_advocate: the critics last, without one the last speaker; they argue against the rest.
/// - parliamentary: moderators, then for and against the motion in alternation: participants at odd
///   places are for it, those at even places and all critics against; in every second round those
///   against it begin.
std::vector<slot> speaking_order(const session& s, int round);
/// Returns: how many turns the current round has. In the topologies whisper and interrupt there is
/// one for each speaker.
int turns_in_round(const session& s);

/// A client's wishes for a turn; all of them are optional.
struct turn_wish {
    std::optional<std::string> agent_id;     // who speaks (turn_by_turn, whisper)
    std::optional<std::string> to_agent_id;  // to whom (whisper)
};

/// The next turn: who speaks, to whom, with which cue.
struct turn_plan {
    int agent = nobody;
    int to = nobody;        // whispers to this one
    std::string cue{};      // the last it reads
    std::size_t reads = 0;  // it reads the lines in front of this one, as far as it may see them
};

/// How much each agent of urgency_candidates() wants to speak, in their order.
using urgencies = std::vector<int>;

/// Returns: the agents that may speak next in the topology interrupt: all speakers but the one that
/// spoke last, unless it is the only one.
std::vector<int> urgency_candidates(const session& s);
inline constexpr int urgency_max = 9;

/// Returns: the next turn. `felt`: how much each candidate wants to speak, for the topology
/// interrupt only; among equal ones the agent speaks that has been silent longest, then the first.
/// Errors: conflict: the session is over, or it is not this agent's turn; not_found, bad_value: the
/// wish names an agent that does not exist or cannot do that.
result<turn_plan> next_turn(const session& s, const turn_wish& wish,
                            const std::optional<urgencies>& felt = std::nullopt);
/// Returns: the remaining turns of the round, beginning with next_turn(). In a broadcast these do
/// not depend on each other, so all are known; in all other topologies only the first is returned.
std::vector<turn_plan> rest_of_round(const session& s);

/// Returns: the turn after the next one, where the order determines it now (turn_by_turn,
/// round_robin), so that its agent can read ahead: it reads the present lines now, and what the
/// next speaker says later. `in_round`: only if it is in the same round. Nothing when both turns
/// are the same agent's.
std::optional<turn_plan> turn_behind_next(const session& s, bool in_round);

/// Returns: the next speaker, as far as that is known now; `nobody` in the topology interrupt and
/// at the end.
int next_speaker(const session& s);

}  // namespace semantic::protocol::coordination

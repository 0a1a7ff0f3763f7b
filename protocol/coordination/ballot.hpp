// SPDX-License-Identifier: Apache-2.0
#pragma once
// Votes of a session's agents: a question is asked, votes come in, and it closes. And what agents
// themselves are asked, with answers held to a form. Pure.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/coordination/floor.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::coordination {

inline constexpr std::size_t questions_max = 100;
inline constexpr std::size_t question_characters_max = 2'000;
inline constexpr std::size_t choices_max = 50;
inline constexpr std::size_t choice_characters_max = 200;
/// The most bytes that a vote adds: its question, a ranking of all choices, and the line that
/// announces it.
inline constexpr std::size_t vote_bytes_max = std::size_t{128} << 10;
/// The most bytes of all questions of a session, with their votes.
inline constexpr std::size_t questions_bytes_max = std::size_t{4} << 20;
/// How often a question is put to all before consensus is given up.
inline constexpr int consensus_ballots_max = 3;

/// All that speak.
voters voters_of(const session& s);
tally tally_in(const session& s, const question& asked);

/// The place of the question with this text among those of the session, which is put there where
/// it is missing. With `choices` nothing else can be voted for.
/// Errors: bad_value: it is there, with other choices; conflict: it is closed, or there are too
/// many.
result<std::size_t> put_question(session& s, const std::string& text,
                                 const std::vector<std::string>& choices = {});

struct cast_vote {
    std::string agent_id;
    std::string question;
    std::string choice;                  // empty where there is a ranking: the first of that
    std::vector<std::string> ranking{};  // best first
};
/// A vote as an event. Errors: not_found: no such agent; bad_value: it is an observer, votes for
/// what is no choice, or ranks something twice; conflict: the session's questions would take more
/// than questions_bytes_max.
result<vote> vote_of(const session& s, const question& asked, const cast_vote& wish,
                     std::string vote_id);

/// Closes the question when all that are asked for it have voted (coordinator_decides: that one),
/// and announces the result; consensus that was not found has all vote again, consensus_ballots_max
/// times together. In decision_mode none questions stay open. Returns: whether something changed.
bool settle(session& s, std::size_t question, const std::string& line_id);

/// The agents whose votes are missing for the question to close.
std::vector<int> missing_voters(const session& s, const question& asked);

/// The question to an agent, the JSON schema of its answer, and the parser of the answer.
struct held_question {
    std::string text;
    std::string schema_json;
};
/// Requires: the question has fixed choices.
held_question ballot_for(const session& s, const question& asked);
/// Errors: internal, when the answer is none that its schema allows (it was cut off).
result<cast_vote> read_ballot(const session& s, const question& asked, int agent,
                              std::string_view answer);
held_question urgency_question();
/// 0 for what is no number from 0 to urgency_max.
int read_urgency(std::string_view answer);

}  // namespace semantic::protocol::coordination

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
/// The most bytes that a vote adds to a session: its question, a ranking of all choices, and the
/// line that announces it.
inline constexpr std::size_t vote_bytes_max = std::size_t{128} << 10;
/// The most bytes of all questions of a session, with their votes.
inline constexpr std::size_t questions_bytes_max = std::size_t{4} << 20;
/// How often a question is put to all before consensus is given up.
inline constexpr int consensus_ballots_max = 3;

/// Returns: the agents that may vote, which are all that speak, and the coordinator.
voters voters_of(const session& s);
/// Returns: the result of the votes so far.
tally tally_in(const session& s, const question& asked);

/// Finds the question with this text in the session, or adds it. Where `choices` are given, only
/// these can be voted for. Returns: its index. Errors: bad_value: it exists with other choices;
/// conflict: it is closed, or there are too many questions.
result<std::size_t> put_question(session& s, const std::string& text,
                                 const std::vector<std::string>& choices = {});

struct cast_vote {
    std::string agent_id;
    std::string question;
    std::string choice;                  // empty where there is a ranking: the first of that
    std::vector<std::string> ranking{};  // best first
};
/// Checks a vote. Returns: the vote to apply. Errors: not_found: no such agent; bad_value: the
/// agent is an observer, votes for something that is no choice, or ranks something twice; conflict:
/// the session's questions would take more than questions_bytes_max.
result<vote> vote_of(const session& s, const question& asked, const cast_vote& wish,
                     std::string vote_id);

/// Closes the question, if all agents have voted that the mode needs (in coordinator_decides only
/// the coordinator), and announces the result in a line. In the mode consensus, votes that do not
/// agree are discarded and all vote again, up to consensus_ballots_max times in all. In
/// decision_mode::none questions stay open. Returns: whether something changed.
bool settle(session& s, std::size_t question, const std::string& line_id);

/// Returns: the agents who still have to vote before the question can close.
std::vector<int> missing_voters(const session& s, const question& asked);

/// A question to an agent, and the JSON schema that its answer is held to.
struct held_question {
    std::string text;
    std::string schema_json;
};
/// Returns: the question that asks an agent for its vote. Requires: the question has fixed choices.
held_question ballot_for(const session& s, const question& asked);
/// Reads the answer to ballot_for(). Errors: internal, when it does not satisfy its schema, because
/// it was cut off.
result<cast_vote> read_ballot(const session& s, const question& asked, int agent,
                              std::string_view answer);
/// Returns: the question how much an agent wants to speak now.
held_question urgency_question();
/// Reads the answer to it. Returns: 0 to urgency_max; 0 where it is no such number.
int read_urgency(std::string_view answer);

}  // namespace semantic::protocol::coordination

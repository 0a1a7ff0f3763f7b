// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions that a session's agents vote on, and what their votes come to. Pure.

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace semantic::protocol::coordination {

/// How votes decide. none: they are counted and decide nothing. majority_vote: the choice with most
/// votes wins. ranked_choice: instant run-off. coordinator_decides: only the coordinator's vote
/// counts. consensus: all must agree.
enum class decision_mode { none, majority_vote, ranked_choice, coordinator_decides, consensus };
inline constexpr std::array decision_names{"none", "majority_vote", "ranked_choice",
                                           "coordinator_decides", "consensus"};

struct vote {
    std::string id;
    int agent = 0;
    std::string choice;                  // the first of the ranking, where there is one
    std::vector<std::string> ranking{};  // best first; empty: the choice alone
};

struct question {
    std::string text;
    std::vector<std::string> choices{};  // in the order they were given, or first voted for
    bool are_fixed = false;              // nothing else can be voted for
    std::vector<vote> votes{};           // one an agent: the latest
    int ballots = 1;                     // consensus: how often all were asked
    bool is_closed = false;
    std::string winner{};   // once closed; empty: it came to nothing
    std::size_t bytes = 0;  // that it takes, with its votes; see measure()
};
/// Recomputes `bytes` of the question. Call it after every change.
void measure(question& asked) noexcept;

struct voters {
    std::vector<int> agents;  // that may vote
    int coordinator = 0;      // whose vote decides, or breaks a tie
};

struct choice_count {
    std::string choice;
    int votes = 0;  // first places, in the first count
};

struct tally {
    std::vector<choice_count> counts;  // most votes first, else in the order of the choices
    int votes = 0;
    int voters = 0;
    std::optional<std::string> winner;
    bool is_tied = false;  // there is no winner because several are equal
    /// ranked_choice: what dropped out, in that order.
    std::vector<std::string> eliminated{};
};

/// The result of the votes so far.
/// - none: no winner.
/// - majority_vote: most votes; among equals the coordinator's own choice, if it is one of them.
/// - ranked_choice: who has no more than half of the ballots that still name anybody left loses the
///   last of the choices, the one with the fewest first places. Among equals the one that had fewer
///   in the latest count in which they differ drops out, else the one that comes last among the
///   choices. When all that are left are equal, and always were, it is a tie.
/// - coordinator_decides: that vote.
/// - consensus: when all voters have voted, and for the same.
tally tally_of(const question& asked, decision_mode mode, const voters& electorate);

}  // namespace semantic::protocol::coordination

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bodies of /v1/coordination and the events of its streams. Pure.
// An earlier system's clients find the fields they know in addition to those that say more.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/coordination/ballot.hpp"
#include "protocol/coordination/floor.hpp"
#include "protocol/coordination/kept_reply.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::coordination {

inline constexpr std::size_t whisper_characters_max = 5'000;

/// How the agents' answers are sampled. Every field may be left out, and the body too.
struct answer_wish {
    int max_tokens = 256;
    engine::sampling_params sampling{};
    bool thinking = false;
};
struct turn_request {
    turn_wish wish;
    answer_wish answer;
};
/// Parses {"agent_id", "to_agent_id", "max_tokens", "thinking", "temperature", ...}. `is_round`: of
/// a whole round, where the first two are refused. Errors: as read_object(); bad_value.
result<turn_request> parse_turn(std::string_view body, bool is_round,
                                const request_limits& limits = {});

struct whisper_request {
    std::string from, to, text;
};
/// Parses {"from_agent_id", "to_agent_id", "content"}.
result<whisper_request> parse_whisper(std::string_view body, const json_limits& limits = {});
/// Returns: the event that a whisper is in this session; `line_id`: the id of its line. Errors:
/// not_found, bad_value, conflict.
result<whispered> whisper_in(const session& s, const whisper_request& wish, std::string line_id);

/// Parses {"agent_id", "question", "choice", "ranking"}.
result<cast_vote> parse_vote(std::string_view body, const json_limits& limits = {});

struct decision_request {
    std::string question;
    std::vector<std::string> choices;
    engine::sampling_params sampling{};
};
/// Parses {"question", "choices", "temperature", ...}, by which all agents are asked to vote.
result<decision_request> parse_decision(std::string_view body, const request_limits& limits = {});

/// A turn that was taken, and what it cost.
struct turn_report {
    said event;
    int turn = 0;
    std::string memory_name{};
    engine::prompt_usage usage{};
    engine::finished end{};
    int read_ahead_tokens = 0;  // computed for its agent before the turn; they count as reused
};

// The bodies of replies. Each takes the session as it is after the request.
std::string created_body(const session& s);
std::string status_body(const session& s);
/// Builds the body with a session's transcript from its lines, some at a time, since it may be
/// long.
class messages_body {
  public:
    /// `names`: the session, of which only the agents are used. `viewer`: the agent whose view it
    /// is; nobody: what all may see.
    messages_body(session names, int viewer);
    /// Appends those of the next lines that the viewer may see.
    void add(std::span<const line> lines);
    /// Returns: the part of the body that was built since the last take().
    std::string take() { return std::exchange(body_, std::string()); }
    /// The length of that part.
    std::size_t bytes() const noexcept { return body_.size(); }
    /// Returns: the last part, with the end of the body.
    std::string finish();

  private:
    session names_;
    int viewer_;
    std::string body_;
    std::size_t count_ = 0;  // lines so far, for the commas
};
std::string turn_body(const session& s, const turn_report& report);
std::string round_body(const session& s, std::span<const turn_report> reports);
/// The answer to a whisper. Requires: the session's last line is that whisper.
std::string whisper_body(const session& s);
std::string vote_body(const session& s, const vote& one, const question& asked);
/// All questions of the session with their votes and results.
std::string votes_body(const session& s);
std::string decision_body(const session& s, const question& asked);

// Server-sent events: turn_start, token as it comes, turn_complete;
// round_complete after the last turn of a round; ping in between; error, last, in place of what
// is missing.
std::string turn_start_event(const session& s, const turn_plan& plan, int turn);
/// `text`: the new piece; `so_far`: all text of this turn, with it.
std::string token_event(const shown_agent& speaker, std::string_view text, std::string_view so_far);
std::string turn_complete_event(const session& s, const turn_report& report);
std::string round_complete_event(const session& s);
std::string ping_event();

}  // namespace semantic::protocol::coordination
